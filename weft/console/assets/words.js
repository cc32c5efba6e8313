// Numbers and times for people, and small helpers to make elements.

const SIZES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const short = Number(Number(value).toPrecision(3));
  for (const [size, letter] of SIZES) if (Math.abs(short) >= size) return `${Number((short / size).toPrecision(3))} ${letter}`;
  return String(Math.abs(short) < 0.001 && short !== 0 ? short.toExponential(1) : short);
}

export const whole = (value) => (value === null || value === undefined ? "–" : Number(value).toLocaleString("en"));
export const bytes = (value) => (value === null || value === undefined ? "–" : `${number(value)}B`.replace(/(\d)B$/, "$1 B"));
export const share = (value) => `${number(100 * value)} %`;

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size < 0.0005) return "0 s";
  if (size < 1) return `${number(value * 1000)} ms`;
  if (size < 120) return `${number(value)} s`;
  if (size < 7200) return `${Math.round(value / 60)} min`;
  if (size < 172800) return `${number(value / 3600)} h`;
  return `${number(value / 86400)} days`;
}

export function clock(at) {
  const date = new Date(at * 1000), today = new Date();
  const time = date.toTimeString().slice(0, 8);
  return date.toDateString() === today.toDateString() ? time : `${date.toISOString().slice(0, 10)} ${time}`;
}

// Event times have no zone: they are shown as they are in the data.
export function moment(micros) {
  if (micros === null || micros === undefined) return "none yet";
  const date = new Date(micros / 1000);
  return Number.isNaN(date.getTime()) ? String(micros) : date.toISOString().replace("T", " ").replace("Z", "").replace(/\.000$/, "");
}

// Names that Weft gave to parts of queries say nothing to people.
export const named = (text) => text.replaceAll(/#[0-9a-f]{6,}(-\d+)?/g, "derived rows");

const SPACE = new Set(["svg", "g", "rect", "path", "text", "circle", "title"]);

export function el(tag, attributes = {}, ...children) {
  const made = SPACE.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") made.style.cssText = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const card = (title, ...children) => el("section", { class: "card" }, title ? el("h2", {}, title) : null, ...children);

export function table(head, rows, numbers = []) {
  const kind = (place) => (numbers.includes(place) ? { class: "number" } : {});
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((text, place) => el("th", { scope: "col", ...kind(place) }, text)))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, place) => el("td", kind(place), cell)))))));
}

const HUES = ["#1f77b4", "#e07b00", "#2a9d5c", "#c23b3b", "#8a5fbf", "#96614f", "#d45fae", "#8a8a00", "#0fa3b1", "#5c6ac4"];
export const colour = (place) => HUES[place] ?? `hsl(${(place * 137.5) % 360} 55% 50%)`;
export const dot = (fill) => el("span", { class: "dot", style: `background:${fill}`, "aria-hidden": "true" });

export async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

export async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "x-weft": "1", "content-type": "application/json" }, body: JSON.stringify(body ?? {}) });
  const said = await answer.json().catch(() => ({ error: `${answer.status}` }));
  if (!answer.ok) throw Object.assign(new Error(said.error), said);
  return said;
}
