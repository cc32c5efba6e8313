// Plan: the topology as a drawing. Click a query to see its way alone, a store to see who uses it and how it is spread.

import { isPart, makeGraph, makeOverview } from "./graph.js";
import { curve, layout } from "./layers.js";
import { rates, recent } from "./points.js";
import { bytes, card, colour, dot, el, named, number, table, whole } from "./words.js";

const MANY = 12;
const HOT = 0.5;

export class Plan {
  constructor(app) {
    this.app = app;
    this.query = null;
    this.node = null;
    this.chips = el("div", { class: "chips", role: "group", "aria-label": "Queries" });
    this.drawing = el("div", { class: "drawing", tabindex: "0", "aria-label": "The plan" });
    this.side = el("aside", { class: "card", "aria-live": "polite" });
    this.head = el("p", { class: "quiet" });
    this.zoom = 1;
    this.root = [card("Plan", this.head, this.chips), el("div", { class: "split" }, el("div", {}, this.zooming(), this.drawing), this.side)];
  }

  zooming() {
    const by = (factor) => () => { this.zoom = factor ? this.zoom * factor : this.fit(); this.scale(); };
    return el("p", { class: "row" }, el("button", { onclick: by(0.8), "aria-label": "smaller" }, "−"), el("button", { onclick: by(1.25), "aria-label": "larger" }, "+"),
      el("button", { onclick: by(0) }, "fit"), el("span", { class: "quiet" }, "Thick lines carry the most tuples. An orange border is where most of the work is. Choose a box to see what looks into what."));
  }

  async open() {
    await this.app.readPlan();
    this.draw();
  }

  async update() {
    if (await this.app.readPlan()) this.draw();
    else this.measure();
  }

  names() {
    return this.app.plan?.plan?.topology.queries.map((one) => one.query).filter((name) => !isPart(name)) ?? [];
  }

  tint(query) {
    const at = this.names().indexOf(query);
    return at < 0 ? "#8a8a8a" : colour(at);
  }

  draw() {
    const plan = this.app.plan?.plan;
    if (!plan) {
      this.head.textContent = "This checkpoint has no drawing of its plan: it was written by an earlier version. Run it once more.";
      return;
    }
    const names = this.names(), { topology } = plan;
    if (this.query && !names.includes(this.query)) this.query = null;
    const overview = !this.query && names.length > MANY;
    this.head.textContent = `${names.length} ${names.length === 1 ? "query" : "queries"}, ${topology.stores.length} stores, ${topology.workers} workers, ${topology.waves} ${topology.waves === 1 ? "wave" : "waves"}: ${topology.kind}.${overview ? " Stores and results are drawn; choose a query to see its probes." : ""}`;
    this.chips.replaceChildren(
      el("button", { class: "chip", "aria-pressed": String(!this.query), onclick: () => this.choose(null) }, "all"),
      ...names.map((name) => el("button", { class: "chip", "aria-pressed": String(this.query === name), onclick: () => this.choose(name) }, dot(this.tint(name)), name)));
    this.graph = overview ? makeOverview(topology) : makeGraph(topology, this.query);
    for (const node of this.graph.nodes) Object.assign(node, { width: node.kind === "stream" ? 110 : 190, height: node.kind === "stream" ? 40 : 54 });
    const size = layout(this.graph.nodes, this.graph.links.filter((link) => link.kind !== "look" || link.to.startsWith("result")));
    const at = new Map(this.graph.nodes.map((node) => [node.id, node]));
    for (const link of this.graph.links) link.path ??= curve([at.get(link.from), at.get(link.to)]);
    this.svg = el("svg", { width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": "Drawing of the plan" });
    this.size = size;
    for (const link of this.graph.links) this.svg.append(...this.drawLink(link));
    for (const node of this.graph.nodes) this.svg.append(this.drawNode(node));
    this.drawing.replaceChildren(this.svg);
    this.zoom = this.fit();
    this.scale();
    this.measure();
    this.show(this.graph.nodes.find((node) => node.id === this.node) ?? null);
  }

  // So small that the whole width can be seen, but not so small that nothing can be read.
  fit() {
    return Math.min(1, Math.max(0.65, (this.drawing.clientWidth - 4) / this.size.width));
  }

  scale() {
    this.svg?.setAttribute("width", this.size.width * this.zoom);
    this.svg?.setAttribute("height", this.size.height * this.zoom);
  }

  choose(query) {
    this.query = query;
    this.draw();
    this.chips.querySelector('[aria-pressed="true"]')?.focus();
  }

  drawLink(link) {
    const queries = [...link.queries].slice(0, 4), shared = link.queries.size > 4;
    const paths = (shared ? [null] : queries).map((query, at, all) => el("path", {
      d: link.path ?? "", class: `link ${link.kind}${link.to.startsWith("result") ? " shown" : ""}`, style: `${query ? `stroke:${this.tint(query)};` : ""}`,
      transform: `translate(0 ${(at - (all.length - 1) / 2) * 3})`,
    }));
    link.paths = paths;
    return paths;
  }

  drawNode(node) {
    const lines = this.label(node);
    const group = el("g", { class: `node ${node.kind}`, tabindex: "0", role: "button", transform: `translate(${node.x} ${node.y})`, "aria-label": lines.join(", "),
      onclick: () => this.show(node), onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.show(node); } } },
      el("rect", { width: node.width, height: node.height, rx: node.kind === "store" ? 4 : 12 }));
    node.texts = lines.map((line, at) => {
      const text = el("text", { x: 9, y: 17 + at * 14, class: at ? "small" : null }, clip(line, node.width));
      group.append(text);
      return text;
    });
    [...node.queries].slice(0, 8).forEach((query, at) => group.append(el("circle", { cx: node.width - 9 - at * 9, cy: node.height - 8, r: 3.5, style: `fill:${this.tint(query)}` })));
    node.group = group;
    return group;
  }

  label(node) {
    if (node.kind === "stream") return [isPart(node.name) ? "derived rows" : node.name, ""];
    if (node.kind === "result") return [isPart(node.name) ? "into derived rows" : `results of ${node.name}`, "", ""];
    if (node.kind === "store") return [`${node.store.name}: ${named(node.store.of)}`, `kept ${node.store.retention}`, ""];
    return [`look into ${node.probe.store} for ${node.probe.aliases.join(", ")}`, node.probe.asks.join(", ") || "every row", ""];
  }

  // Numbers that change with every batch.
  measure() {
    if (!this.graph || !this.app.plan) return;
    const window = recent(this.app.points).filter((point) => point.nodes), { stores } = this.app.plan;
    this.rate = {
      probed: rates(window, (point) => point.nodes.probed), matched: rates(window, (point) => point.nodes.matched),
      rows: rates(recent(this.app.points), (point) => point.rows), results: rates(recent(this.app.points), (point) => point.results),
    };
    const work = this.graph.nodes.filter((node) => node.kind === "probe").map((node) => this.flow(node)), most = Math.max(1, ...work);
    for (const node of this.graph.nodes) {
      const last = node.texts.at(-1);
      const held = node.kind === "store" ? stores[node.store.id] : null;
      const text = isPart(node.name ?? "") ? "" : node.kind === "stream" ? `${number(this.rate.rows[node.name] ?? 0)} rows/s` : node.kind === "result" ? `${number(this.rate.results[node.name] ?? 0)} results/s`
        : node.kind === "store" ? `${number(held?.rows ?? 0)} rows, ${bytes(held?.bytes ?? 0)}` : `${number(this.flow(node))} tuples/s${this.found(node)}`;
      last.textContent = clip(text, node.width);
      node.group.classList.toggle("hot", node.kind === "probe" && this.flow(node) > HOT * most && this.flow(node) > 0);
    }
    for (const link of this.graph.links) {
      const flow = this.along(link);
      for (const path of link.paths) path.style.strokeWidth = String(1.2 + Math.log10(1 + flow) * 0.9);
    }
    if (this.shown) this.describe(this.shown);
  }

  flow(node) {
    return this.rate.probed[node.probe.id] ?? 0;
  }

  found(node) {
    const expected = fan(node.probe.matches.estimated, node.probe.tuples_in.estimated), probed = this.app.plan.probed[node.probe.id], matched = this.app.plan.matched[node.probe.id] ?? 0;
    if (!probed) return "";
    return `, ${number(matched / probed)} found${expected === null ? "" : ` (~${number(expected)})`}`;
  }

  along(link) {
    const [kind, ...rest] = link.to.split(" "), id = rest.join(" ");
    if (link.kind === "look") return 0;
    if (kind === "probe") return this.rate.probed[id] ?? 0;
    if (kind === "result") return this.rate.results[id] ?? 0;
    const from = link.from.split(" ");
    return from[0] === "stream" ? this.rate.rows[from.slice(1).join(" ")] ?? 0 : 0;
  }

  show(node) {
    this.shown = node;
    this.node = node?.id ?? null;
    const mine = node ? new Set(this.graph.links.filter((link) => link.from === node.id || link.to === node.id).flatMap((link) => [link.from, link.to])) : null;
    for (const other of this.graph.nodes) {
      other.group.classList.toggle("faded", Boolean(mine) && !mine.has(other.id) && other !== node);
      other.group.classList.toggle("chosen", other === node);
    }
    for (const link of this.graph.links) {
      const touches = link.from === node?.id || link.to === node?.id;
      for (const path of link.paths) {
        path.classList.toggle("faded", Boolean(node) && !touches);
        path.classList.toggle("shown", touches || link.to.startsWith("result"));
      }
    }
    this.describe(node);
  }

  describe(node) {
    this.side.hidden = !node;
    if (!node) return;
    const parts = { stream: () => this.ofStream(node), store: () => this.ofStore(node), probe: () => this.ofProbe(node), result: () => this.ofResult(node) }[node.kind]();
    this.side.replaceChildren(...parts.filter(Boolean), el("p", {}, el("button", { onclick: () => this.show(null) }, "Close")));
  }

  users(node) {
    return [el("h3", {}, `Used by ${node.queries.size === 1 ? "one query" : `${node.queries.size} queries`}`),
      el("div", { class: "chips" }, [...node.queries].filter((query) => !isPart(query)).map((query) => el("button", { class: "chip", onclick: () => this.choose(query) }, dot(this.tint(query)), query)))];
  }

  ofStream(node) {
    const facts = this.app.streams[node.name] ?? {};
    return [el("h2", {}, `Stream ${node.name}`), el("p", {}, `${number(this.rate.rows[node.name] ?? 0)} rows a second`),
      ...Object.entries(facts).map(([name, value]) => el("p", {}, el("span", { class: "quiet" }, `${name}: `), value)), ...this.users(node)];
  }

  ofStore(node) {
    const { store } = node, held = this.app.plan.stores[store.id];
    const on = Object.entries(held?.workers ?? {}).sort((a, b) => a[0] - b[0]), most = Math.max(1, ...on.map(([, rows]) => rows));
    const skew = on.length ? most * store.workers / on.reduce((sum, [, rows]) => sum + rows, 0) : null;
    return [el("h2", {}, `Store ${store.name}: ${named(store.of)}`),
      el("p", {}, `${whole(held?.rows ?? 0)} rows, ${bytes(held?.bytes ?? 0)}, ${whole(held?.segments ?? 0)} segments`, store.rows.estimated !== null ? el("span", { class: "quiet" }, `, expected ${number(store.rows.estimated)} ${store.rows.unit}`) : null),
      el("p", {}, `Kept ${store.retention}: `, el("span", { class: "quiet" }, store.because)),
      el("p", {}, store.spread ?? (store.placement.length ? `placed by ${store.placement.join(", ")}` : "scattered")),
      store.where.length ? el("p", {}, "Only rows with ", el("code", {}, store.where.join(" AND "))) : null,
      store.indexes.length ? el("p", {}, "Index: ", store.indexes.join("; ")) : null,
      el("p", { class: "quiet" }, `Columns: ${store.columns.join(", ")}`),
      on.length ? el("h3", {}, `Rows by worker, skew ${number(skew)}`) : null,
      el("div", { class: "bars" }, on.slice(0, 32).map(([worker, rows]) => el("div", { class: `bar${rows * on.length > 2 * on.reduce((sum, [, n]) => sum + n, 0) ? " hot" : ""}` }, el("span", {}, `worker ${worker}`), el("i", { style: `width:${100 * rows / most}%` }), el("span", {}, whole(rows))))),
      ...this.users(node)];
  }

  ofProbe(node) {
    const { probe } = node, plan = this.app.plan, probed = plan.probed[probe.id] ?? 0, matched = plan.matched[probe.id] ?? 0;
    const expected = fan(probe.matches.estimated, probe.tuples_in.estimated);
    return [el("h2", {}, `Look into ${probe.store}`),
      el("p", {}, `New rows of ${node.alias} look for ${probe.aliases.join(", ")}, in wave ${probe.wave}.`),
      table(["", "measured", "expected"], [
        ["tuples a second", number(this.flow(node)), "–"],
        ["tuples so far", whole(probed), "–"],
        ["matches so far", whole(matched), "–"],
        ["matches a tuple", probed ? number(matched / probed) : "–", expected === null ? "unknown" : number(expected)],
      ], [1, 2]),
      el("p", {}, "Asks for ", el("code", {}, probe.asks.join(" AND ") || "every row")),
      probe.checks.length ? el("p", {}, "Checks ", el("code", {}, probe.checks.join(" AND "))) : null,
      el("p", { class: "quiet" }, `Sent to ${{ local: "the same worker", key: "the worker that owns the key", broadcast: "all workers", scatter: "any worker", spread: "its cells" }[probe.route]}${probe.route_key.length ? ` by ${probe.route_key.join(", ")}` : ""}.`),
      ...this.users(node)];
  }

  ofResult(node) {
    return [el("h2", {}, `Results of ${node.name}`), el("p", {}, `${number(this.rate.results[node.name] ?? 0)} a second, ${whole(this.app.plan.results[node.name] ?? 0)} so far`),
      el("p", {}, el("a", { href: `#queries/${encodeURIComponent(node.name)}` }, "Text, plan and last rows")), ...this.users(node)];
  }
}

const fan = (matches, tuples) => (matches === null || matches === undefined || !tuples ? null : matches / tuples);
const clip = (text, width) => (text.length > width / 6.3 ? `${text.slice(0, Math.floor(width / 6.3) - 1)}…` : text);
