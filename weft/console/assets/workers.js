// Workers: load, skew, copies and memory.

import { Chart } from "./chart.js";
import { curves, rates, recent, skew, span, total } from "./points.js";
import { bytes, card, el, number, whole } from "./words.js";

export class Workers {
  constructor(app) {
    this.app = app;
    this.tiles = el("div", { class: "tiles" });
    this.load = card("Load by worker");
    this.skew = new Chart("Skew degree: load of the busiest worker over the average", [["skew", "#e07b00"]], number);
    this.copies = new Chart("Copies made of a row", [["copies", "#8a5fbf"]], number);
    this.work = new Chart("Seconds of work a second, by wave", [["work", null]], number);
    this.memory = new Chart("Memory on the machine of the driver", [["driver", null], ["java", null], ["workers", null]], bytes);
    this.charts = [this.skew, this.copies, this.work, this.memory];
    this.root = [app.controls.panel(), this.tiles, this.load, el("div", { class: "charts" }, this.charts.map((chart) => chart.card))];
  }

  open() {
    return this.app.readPlan();
  }

  async update() {
    await this.app.readPlan();
    const { points, plan } = this.app, window = recent(points), workers = plan?.plan?.topology.workers ?? this.app.workers;
    if (!points.length || !plan) return void this.tiles.replaceChildren(el("p", { class: "quiet" }, "No batch has been committed yet."));
    const load = rates(window, (point) => point.load), sum = (name) => window.reduce((made, point) => made + (point[name] ?? 0), 0);
    const io = window.reduce((made, point) => made + total(point.rows) + total(point.results), 0);
    this.tiles.replaceChildren(...[
      ["Workers", whole(workers), "partitions of the state"],
      ["Skew degree", number(skew({ load }, workers) ?? 1), "1 is even; the last 30 seconds"],
      ["Replication", sum("routed") ? number(sum("sent") / sum("routed")) : "–", "copies of a row of a stream"],
      ["Network factor", io ? number(sum("moved") / io) : "–", "tuples moved for one in or out"],
      ["Memory", bytes(total(points.at(-1).memory)), "driver, Spark and Python workers"],
    ].map(([label, value, more]) => el("div", { class: "card tile" }, el("span", {}, label), el("b", {}, value), el("span", {}, more))));
    const names = Array.from({ length: workers }, (_, at) => String(at)), most = Math.max(1e-9, ...Object.values(load)), mean = total(load) / workers;
    this.load.replaceChildren(el("h2", {}, "Load by worker"), el("div", { class: "bars" }, names.slice(0, 64).map((name) => el("div", { class: `bar${(load[name] ?? 0) > 1.5 * mean ? " hot" : ""}` },
      el("span", {}, `worker ${name}`), el("i", { style: `width:${(100 * (load[name] ?? 0)) / most}%` }),
      el("span", {}, `${number(load[name] ?? 0)}/s, ${bytes(plan.workers[name]?.bytes ?? 0)}`)))),
      el("p", { class: "quiet" }, "Rows stored and tuples answered a second, and bytes of state. Orange carries half as much again as the average."));
    const marks = this.app.marks();
    this.skew.update(curves(points, [(point) => skew(point, workers)]), marks);
    this.copies.update(curves(points, [(point) => (point.routed ? point.sent / point.routed : null)]), marks);
    const waves = [...new Set(points.flatMap((point) => Object.keys(point.waves ?? {})))].sort();
    this.work.name(waves.map((wave) => [wave === "0" ? "reading" : `wave ${wave}`, null]));
    this.work.update(curves(points, waves.map((wave) => (point) => (point.waves?.[wave] ?? 0) / span(point))), marks);
    this.memory.update(curves(points, ["driver", "java", "workers"].map((name) => (point) => point.memory?.[name] ?? null)), marks);
  }
}
