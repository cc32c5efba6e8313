// A curve with a title, a legend of its own, and marks.

import { card, clock, colour, dot, el } from "./words.js";

const MARKS = { start: "#1f7a4d", stopped: "#9a5b00", done: "#9a5b00", failed: "#b3261e", killed: "#b3261e", plan: "#8a5fbf" };
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  // `series` is a list of [label, colour?]; `say` writes a value; `zero` begins the axis at 0.
  constructor(title, series, say, { zero = true, height = 170 } = {}) {
    this.title = title; this.say = say; this.height = height; this.zero = zero; this.marks = [];
    this.place = el("div", {});
    this.legend = el("p", { class: "legend" });
    this.value = el("span", { class: "quiet" });
    this.card = card(null, el("h2", {}, title, " ", this.value), this.place, this.legend);
    this.series = [];
    this.name(series);
  }

  name(series) {
    if (JSON.stringify(series) === JSON.stringify(this.series) && this.plot) return;
    this.series = series;
    this.plot?.destroy();
    this.plot = null;
    this.legend.replaceChildren(...(series.length > 1 ? series.map(([label], at) => el("span", {}, dot(series[at][1] ?? colour(at)), " ", label)) : []));
  }

  make(data) {
    const axis = { stroke: style("--quiet"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    this.plot = new uPlot({
      width: Math.max(this.place.clientWidth, 200), height: this.height, pxAlign: false, cursor: { points: { size: 6 } },
      scales: { x: { time: true }, y: { range: (_, low, high) => [this.zero ? Math.min(0, low ?? 0) : low, (high || 1) * 1.05] } },
      axes: [axis, { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => this.say(tick)) }],
      series: [{}, ...this.series.map(([label, fixed], at) => ({
        label, stroke: fixed ?? colour(at), width: 1.6, points: { show: (plot) => plot.data[0].length < 3, size: 5 }, spanGaps: false,
        fill: this.series.length === 1 ? `${fixed ?? colour(at)}22` : undefined,
      }))],
      hooks: { draw: [(plot) => this.drawMarks(plot)], setCursor: [(plot) => this.point(plot)] },
    }, data, this.place);
  }

  update(data, marks = []) {
    this.marks = marks;
    this.place.setAttribute("role", "img");
    const last = data.slice(1).map((list) => list.at(-1));
    this.place.setAttribute("aria-label", `${this.title}: ${this.series.map(([label], at) => `${label} ${this.say(last[at] ?? 0)}`).join(", ")}`);
    if (!this.plot) this.make(data);
    else this.plot.setData(data);
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }

  redraw() {
    if (!this.plot) return;
    const data = this.plot.data;
    this.plot.destroy();
    this.make(data);
  }

  point(plot) {
    const at = plot.cursor.idx;
    if (at === null || at === undefined) return void (this.value.textContent = "");
    const values = this.series.map(([label], place) => `${this.series.length > 1 ? `${label} ` : ""}${this.say(plot.data[place + 1][at])}`);
    this.value.textContent = `${clock(plot.data[0][at])}: ${values.join(", ")}`;
  }

  drawMarks(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    for (const mark of this.marks) {
      if (!MARKS[mark.kind]) continue;
      const x = plot.valToPos(mark.at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = MARKS[mark.kind];
      ctx.setLineDash(mark.kind === "plan" ? [3, 3] : []);
      ctx.lineWidth = 1.5;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }
}

export const markLegend = () => el("p", { class: "legend" },
  ...[["start", "a run began"], ["stopped", "stopped or done"], ["killed", "killed or failed"], ["plan", "the plan changed (dashed)"]].map(([kind, text]) => el("span", {}, dot(MARKS[kind]), " ", text)));
