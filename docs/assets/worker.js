// Browsers start no workers for pages that come from files.  There, a hidden frame does the work of one: it loads the
// script, gets messages as events, and sends its own to this page.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super();
    this.onmessage = null;
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.appendChild(frame);
    const inside = frame.contentWindow;
    this.waiting = [];
    inside.postMessage = (data) => {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    };
    const load = (src) => new Promise((done, failed) => {
      const script = frame.contentDocument.createElement("script");
      script.src = src;
      script.onload = done;
      script.onerror = failed;
      frame.contentDocument.body.appendChild(script);
    });
    inside.importScripts = (...sources) => sources.reduce((before, src) => before.then(() => load(src)), Promise.resolve());
    this.inside = inside;
    load(new URL(url, document.baseURI).href).then(() => {
      const late = this.waiting;
      this.waiting = null;
      late.forEach((data) => this.postMessage(data));
    });
  }
  postMessage(data) {
    if (this.waiting) this.waiting.push(data);
    else this.inside.dispatchEvent(new MessageEvent("message", { data }));
  }
  terminate() {}
};
if (location.protocol === "file:") window.Worker = window.IFrameWorker;
