// History: up to two weeks, with marks where runs began and ended and where the plan changed.

import { Chart, markLegend } from "./chart.js";
import { curves, marks, skew, span, total } from "./points.js";
import { bytes, card, clock, el, get, number, seconds, table } from "./words.js";

const SPANS = [["1 hour", 3600], ["6 hours", 21600], ["1 day", 86400], ["1 week", 604800], ["2 weeks", 1209600]];
const WORDS = { start: "began", stopped: "stopped", done: "done", failed: "failed", killed: "killed", plan: "plan changed", notice: "notice" };
const PAUSE = 5000;

export class History {
  constructor(app) {
    this.app = app;
    this.span = el("select", { "aria-label": "How far back", onchange: () => this.open() }, SPANS.map(([text, value]) => el("option", { value }, text)));
    this.rows = new Chart("Rows in a second", [["rows", null]], number);
    this.out = new Chart("Results a second", [["results", "#2a9d5c"]], number);
    this.time = new Chart("Slowest batch", [["seconds", "#8a5fbf"]], seconds);
    this.state = new Chart("State", [["bytes", "#0fa3b1"]], bytes);
    this.late = new Chart("Rows dropped a second", [["dropped", "#c23b3b"]], number);
    this.skew = new Chart("Skew degree", [["skew", "#e07b00"]], number);
    this.charts = [this.rows, this.out, this.time, this.state, this.late, this.skew];
    this.list = card("What happened");
    this.root = [card("History", el("p", { class: "row" }, el("label", {}, "How far back", this.span)), markLegend()), el("div", { class: "charts" }, this.charts.map((chart) => chart.card)), this.list];
  }

  async open() {
    this.read = Date.now();
    const { points, events } = await get(`/api/history?seconds=${this.span.value}`);
    const found = marks(events, points);
    if (this.app.life.state === "killed") found.push({ at: this.app.life.at, kind: "killed", text: "the run was killed" });
    const dropped = (point) => (total(point.late) + total(point.untimed) + total(point.unreadable) + total(point.lost)) / span(point);
    for (const [chart, series] of [[this.rows, (p) => total(p.rows) / span(p)], [this.out, (p) => total(p.results) / span(p)], [this.time, (p) => p.slowest], [this.state, (p) => p.state_bytes], [this.late, dropped], [this.skew, (p) => skew(p, this.app.workers)]]) {
      chart.update(curves(points, [series]), found);
    }
    this.list.replaceChildren(el("h2", {}, "What happened"), found.length ? table(["when", "what", ""], [...found].reverse().slice(0, 200).map((mark) => [clock(mark.at), WORDS[mark.kind] ?? mark.kind, el("span", {}, mark.text, mark.detail ? el("span", { class: "quiet" }, ` ${mark.detail}`) : null)])) : el("p", { class: "quiet" }, "Nothing yet."));
  }

  async update() {
    if (Date.now() - this.read > PAUSE) await this.open();
  }
}
