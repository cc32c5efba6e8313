// Now: how fast, how far, how much, and what is worth knowing.

import { Chart } from "./chart.js";
import { curves, largest, recent, rates, span, total } from "./points.js";
import { bytes, card, clock, el, moment, number, seconds, table, whole } from "./words.js";

const WEEK = 604800;

export class Now {
  constructor(app) {
    this.app = app;
    this.tiles = el("div", { class: "tiles" });
    this.sources = card("Sources");
    this.marks = card("Watermarks");
    this.notices = card("Notices");
    this.rows = new Chart("Rows in a second", [["rows", null]], number);
    this.out = new Chart("Results a second", [["results", null]], number);
    this.time = new Chart("Time of a batch", [["seconds", "#8a5fbf"]], seconds);
    this.state = new Chart("State", [["bytes", "#0fa3b1"]], bytes);
    this.charts = [this.rows, this.out, this.time, this.state];
    this.root = [app.controls.panel(), this.tiles, el("div", { class: "charts" }, this.charts.map((chart) => chart.card)), this.sources, this.marks, this.notices];
  }

  update() {
    const { points } = this.app, last = points.at(-1);
    if (!last) {
      this.tiles.replaceChildren(el("p", { class: "quiet" }, "No batch has been committed yet."));
      return;
    }
    const window = recent(points), now = this.app.now();
    const running = this.app.life.state === "running";
    const inRate = total(rates(window, (point) => point.rows)), outRate = total(rates(window, (point) => point.results));
    const batches = window.reduce((sum, point) => sum + point.batches, 0);
    const mean = window.reduce((sum, point) => sum + point.seconds, 0) / (batches || 1);
    const busy = window.reduce((sum, point) => sum + point.seconds, 0) / window.reduce((sum, point) => sum + span(point), 0);
    this.tiles.replaceChildren(...[
      ["Rows in", `${number(inRate)}/s`, running ? "over the last 30 seconds" : "in its last 30 seconds"],
      ["Results", `${number(outRate)}/s`, `${whole(total(last.results))} in batch ${last.batch}`],
      ["Batch time", seconds(mean), `busy ${number(Math.min(100, 100 * busy))} % of the time`],
      ["State", `${number(last.state_rows)} rows`, `${bytes(last.state_bytes)}, ${whole(last.segments)} segments`],
      ["Watermark", ...this.watermark(last)],
      ["Last commit", running ? `${seconds(Math.max(0, Math.round(now - last.until)))} ago` : clock(last.until), `batch ${whole(last.batch)}`],
    ].map(([label, value, more]) => el("div", { class: "card tile" }, el("span", {}, label), el("b", {}, value), el("span", {}, more))));
    this.curve(this.rows, (point) => point.rows);
    this.curve(this.out, (point) => point.results);
    const marks = this.app.marks();
    this.time.update(curves(points, [(point) => point.seconds / point.batches]), marks);
    this.state.update(curves(points, [(point) => point.state_bytes]), marks);
    this.table(window, last);
    this.listMarks(last);
    this.listNotices();
  }

  curve(chart, counter) {
    const { points } = this.app, { shown, rest } = largest(points, counter);
    chart.name([...shown.map((name) => [name, null]), ...(rest.length ? [[`${rest.length} others`, "#8a8a8a"]] : [])]);
    const sum = (point) => rest.reduce((made, name) => made + (counter(point)?.[name] ?? 0), 0);
    const series = shown.map((name) => (point) => (counter(point)?.[name] ?? 0) / span(point));
    if (rest.length) series.push((point) => sum(point) / span(point));
    chart.update(curves(points, series), this.app.marks());
  }

  watermark(last) {
    const known = (last.marks ?? []).filter((mark) => mark[0] !== null);
    if (!last.marks?.length) return ["none", "no query has event times"];
    if (!known.length) return ["none yet", `waits for ${last.marks[0][1]}`];
    const [at, stream] = known.reduce((low, mark) => (mark[0] < low[0] ? mark : low));
    const newest = Math.max(...Object.values(last.newest ?? {}));
    return [seconds((newest - at) / 1e6), `behind the newest row, held by ${stream}`];
  }

  table(window, last) {
    const perSecond = rates(window, (point) => point.rows), late = {};
    for (const point of this.app.points) for (const counter of ["late", "untimed", "unreadable", "lost"]) for (const [name, count] of Object.entries(point[counter] ?? {})) late[name] = (late[name] ?? 0) + count;
    const newest = Math.max(...Object.values(last.newest ?? {}), -Infinity);
    const rows = Object.keys(this.app.streams).sort().map((name) => {
      const at = last.newest?.[name];
      const lag = at === undefined ? null : last.until - at / 1e6;
      return [name, `${number(perSecond[name] ?? 0)}`, at === undefined ? "–" : moment(at), at === undefined ? "–" : seconds((newest - at) / 1e6),
        lag === null ? "–" : Math.abs(lag) < WEEK ? seconds(lag) : "–", last.lag?.[name] === undefined ? "–" : whole(last.lag[name]), late[name] ? whole(late[name]) : "0"];
    });
    this.sources.replaceChildren(el("h2", {}, "Sources"), table(["stream", "rows/s", "newest event time", "behind the newest stream", "behind the clock", "records waiting", "dropped"], rows, [1, 3, 4, 5, 6]),
      el("p", { class: "quiet" }, "Dropped rows came below the watermark, without an event time, or could not be read, in the last 15 minutes."));
  }

  listMarks(last) {
    const rows = (last.marks ?? []).map(([at, stream, batches, long, queries]) => [moment(at), stream, batches ? `${whole(batches)} batches, ${seconds(long)}` : "moves", queries.length > 6 ? `${queries.length} queries` : queries.join(", ")]);
    this.marks.hidden = !rows.length;
    this.marks.replaceChildren(el("h2", {}, "Watermarks"), table(["watermark", "held by", "stands still for", "queries"], rows));
  }

  listNotices() {
    const seen = new Map();
    for (const event of this.app.events) if (event.is === "notice") { seen.delete(event.kind); seen.set(event.kind, event); }
    const shown = [...seen.values()].reverse();
    this.notices.replaceChildren(el("h2", {}, "Notices"), ...(shown.length ? shown.map((notice) => el("div", { class: "notice" },
      el("p", {}, el("strong", {}, notice.message), " ", el("span", { class: "quiet" }, clock(notice.at))),
      el("p", {}, notice.detail), el("p", {}, "What helps: ", notice.hint), notice.action ? el("p", {}, el("code", {}, notice.action)) : null)) : [el("p", { class: "quiet" }, "Nothing to say.")]));
  }
}
