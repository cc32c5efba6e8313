// The console: keeps what is known of the session, and shows one of five pages of it.
//
// It listens first and asks for the whole state then; what comes twice is dropped by its time. When nothing is heard any
// more it says so, and tries again.

import { Controls, tell } from "./controls.js";
import { History } from "./history.js";
import { Now } from "./now.js";
import { Plan } from "./plan.js";
import { marks } from "./points.js";
import { Queries } from "./queries.js";
import { Workers } from "./workers.js";
import { clock, el, get, post, seconds } from "./words.js";

const PAGES = { now: ["Now", Now], plan: ["Plan", Plan], queries: ["Queries", Queries], workers: ["Workers", Workers], history: ["History", History] };
const KEPT = 900;
const DETAILED = 120;
const SILENT = 25000;

class App {
  constructor() {
    Object.assign(this, { points: [], events: [], life: { state: "connecting" }, streams: {}, workers: null, plan: null, skewed: 0, heard: Date.now() });
    this.controls = new Controls(this);
    this.pages = {};
    this.waiting = false;
  }

  // Seconds since 1970 by the clock of the machine that the session runs on.
  now() {
    return Date.now() / 1000 + this.skewed;
  }

  marks() {
    return marks(this.events, this.points);
  }

  async read() {
    const state = await get("/api/state");
    this.skewed = state.now - Date.now() / 1000;
    Object.assign(this, { points: state.points, events: state.events, streams: state.streams, workers: state.workers, life: state.life, plan: null });
    document.getElementById("name").textContent = state.name;
    document.title = `${state.name} – Weft`;
    this.controls.take(state.control);
    this.show();
  }

  take(message) {
    this.life = message.life;
    let plan = false;
    for (const line of message.lines) {
      if (line.is === "point") {
        if (line.until > (this.points.at(-1)?.until ?? 0)) this.points.push(line);
      } else if (!this.events.some((event) => event.at === line.at && event.is === line.is && event.message === line.message)) {
        this.events.push(line);
        plan ||= line.is === "start" || line.kind === "plan-changed";
      }
    }
    this.points.splice(0, this.points.length - KEPT);
    for (const point of this.points.slice(0, -DETAILED)) delete point.nodes;
    if (plan) this.read().catch(() => this.lost());
    else this.show();
  }

  // Plan and sizes of stores; asked for at most every two seconds, and only by pages that show them.
  async readPlan() {
    const last = this.points.at(-1)?.batch;
    if (this.plan && (this.plan.batch === last || Date.now() - this.planRead < 2000)) return false;
    this.planRead = Date.now();
    const before = this.plan?.plan?.at;
    this.plan = await get("/api/plan");
    return this.plan.plan?.at !== before;
  }

  planChanged() {
    const at = this.plan?.plan?.at, changed = at !== this.seen;
    this.seen = at;
    return changed;
  }

  // ------------------------------------------------------------------------------------------------ contact

  connect() {
    this.source?.close();
    const source = this.source = new EventSource("/events");
    source.onopen = () => { this.heard = Date.now(); this.read().then(() => { this.contact = true; this.show(); }).catch(() => this.lost()); };
    source.onmessage = (event) => { this.heard = Date.now(); this.contact = true; this.take(JSON.parse(event.data)); };
    source.addEventListener("reload", () => { this.heard = Date.now(); this.read().catch(() => this.lost()); });
    source.onerror = () => { if (this.source === source) this.lost(); };
  }

  lost() {
    this.contact = false;
    this.sayLife();
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.connect(), 2000);
  }

  sayLife() {
    const place = document.getElementById("life"), { state, at, every } = this.life;
    const ended = ["stopped", "done", "failed", "killed"].includes(state);
    const lost = this.contact === false && !ended;
    const since = at ? `, ${clock(at)}` : "";
    const text = lost ? `lost contact ${seconds(Math.round((Date.now() - this.heard) / 1000))} ago`
      : { running: every ? `running, every ${seconds(every)}` : "running", stopped: `stopped${since}`, done: `done${since}`, failed: `failed${since}`, killed: `killed${since}`, silent: `silent${since}`, new: "not started yet" }[state] ?? state;
    if (place.textContent !== text) place.textContent = text;
    place.dataset.state = lost ? "lost" : state;
    place.title = lost ? "The console does not answer. If the process has ended, start it again and open its new link." : this.life.why ?? "";
  }

  // -------------------------------------------------------------------------------------------------- pages

  route() {
    const [name, ...rest] = location.hash.slice(1).split("/");
    return [PAGES[name] ? name : "now", decodeURIComponent(rest.join("/"))];
  }

  async go() {
    const [name, rest] = this.route(), main = document.getElementById("page");
    const page = this.pages[name] ??= new PAGES[name][1](this);
    if (this.page !== page) {
      this.page = page;
      main.replaceChildren(...page.root);
      for (const link of document.querySelectorAll("#tabs a")) link.hash === `#${name}` ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
    }
    await page.open?.(rest);
    await page.update?.();
    for (const chart of page.charts ?? []) chart.resize();
  }

  // One drawing at a time, however fast messages come.
  show() {
    this.sayLife();
    if (this.waiting || document.hidden) return;
    this.waiting = true;
    requestAnimationFrame(async () => {
      try {
        if (this.page) await this.page.update();
        else await this.go();
      } catch (error) {
        if (!(error instanceof TypeError) && !/: (401|5\d\d)$/.test(error.message)) throw error;
        this.lost();
      } finally {
        this.waiting = false;
      }
    });
  }

  start() {
    document.getElementById("tabs").replaceChildren(...Object.entries(PAGES).map(([name, [title]], at) => el("a", { href: `#${name}`, title: `Key ${at + 1}` }, title)));
    addEventListener("hashchange", () => this.go().catch(() => this.lost()));
    addEventListener("resize", () => { for (const chart of this.page?.charts ?? []) chart.resize(); });
    addEventListener("keydown", (event) => {
      if (event.target.closest?.("input, textarea, select, dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
      const name = Object.keys(PAGES)[Number(event.key) - 1];
      if (name) location.hash = name;
    });
    document.addEventListener("visibilitychange", () => this.show());
    document.getElementById("theme").onclick = () => this.turnTheme();
    document.getElementById("share").onclick = () => this.share();
    setInterval(() => { if (this.contact && Date.now() - this.heard > SILENT) this.lost(); this.sayLife(); }, 1000);
    document.documentElement.dataset.theme = localStorage.getItem("weft-theme") ?? "";
    this.connect();
  }

  turnTheme() {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("weft-theme", root.dataset.theme);
    for (const page of Object.values(this.pages)) for (const chart of page.charts ?? []) chart.redraw();
  }

  async share() {
    const { link } = await post("/api/link");
    tell("A link for another browser", el("p", {}, "It opens the console once."), el("pre", {}, link));
  }
}

window.weft = new App();
window.weft.start();
