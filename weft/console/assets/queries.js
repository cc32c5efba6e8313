// Queries: what they say, the plan that was chosen and what else was weighed, results a second, last rows.

import { rates, recent } from "./points.js";
import { card, el, get, moment, named, number, table, whole } from "./words.js";

export class Queries {
  constructor(app) {
    this.app = app;
    this.find = el("input", { type: "search", placeholder: "Find a query", "aria-label": "Find a query", oninput: () => this.list() });
    this.body = el("div", {});
    this.detail = el("div", {});
    this.chosen = null;
    this.turn = 0;
    this.tools = el("p", { class: "row" }, this.find);
    this.root = [card("Queries", this.tools, this.body), this.detail];
  }

  async open(name) {
    const turn = ++this.turn;
    this.chosen = name || null;
    this.facts = await get("/api/queries");
    await this.app.readPlan();
    if (turn !== this.turn) return; // another query was chosen meanwhile
    this.tools.replaceChildren(this.find, ...this.app.controls.queryButtons(this.chosen));
    this.list();
    if (name && this.facts[name]) await this.choose(name);
    else if (!name) this.detail.replaceChildren();
  }

  async update() {
    if (this.app.planChanged()) await this.open(this.chosen);
    this.list();
  }

  list() {
    if (!this.facts) return;
    const perSecond = rates(recent(this.app.points), (point) => point.results), wanted = this.find.value.toLowerCase();
    const names = Object.keys(this.facts).filter((name) => name.toLowerCase().includes(wanted)).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const total = this.app.plan?.results ?? {};
    const rows = names.map((name) => [el("button", { class: "link", onclick: () => { location.hash = `queries/${encodeURIComponent(name)}`; } }, name),
      number(perSecond[name] ?? 0), whole(total[name] ?? this.facts[name].results), named(joined(this.facts[name].from)),
      this.facts[name]["complete from"] === null ? "complete" : `from ${moment(this.facts[name]["complete from"])}`]);
    const made = table(["query", "results/s", "results", "joins", "complete"], rows, [1, 2]);
    const at = this.body.querySelector(".link:focus")?.textContent;
    this.body.replaceChildren(rows.length ? made : el("p", { class: "quiet" }, "No query has such a name."));
    if (at) [...this.body.querySelectorAll(".link")].find((button) => button.textContent === at)?.focus();
  }

  async choose(name) {
    this.chosen = name;
    const facts = this.facts[name], plan = this.app.plan?.plan;
    const summary = plan?.topology.summaries.find((one) => one.query === name), weighed = plan?.candidates.queries.find((one) => one.query === name);
    const text = plan?.queries[name]?.text ?? asSql(facts);
    const into = plan?.queries[name]?.into ?? facts.into;
    this.detail.replaceChildren(card(name, ...this.app.controls.dropButton(name), el("pre", {}, text),
      el("p", {}, el("span", { class: "quiet" }, "Results go "), into.join(", ") || "nowhere yet"),
      summary ? el("h3", {}, "The plan") : null,
      summary ? el("p", {}, el("strong", {}, summary.plan), ": ", summary.because) : null,
      summary ? el("ul", {}, summary.keeps.map((kept) => el("li", {}, kept))) : null,
      summary ? el("p", { class: "quiet" }, `A new row looks into at most ${summary.looks} ${summary.looks === 1 ? "store" : "stores"}, in ${summary.rounds} ${summary.rounds === 1 ? "wave" : "waves"}.`) : null,
      weighed ? el("h3", {}, `What else was weighed (${weighed.considered})`) : null,
      weighed ? this.weigh(weighed) : null,
      el("h3", {}, "Last rows"), this.rows = el("div", {}, el("p", { class: "quiet" }, "Reading."))));
    this.detail.scrollIntoView({ block: "nearest" });
    const found = await get(`/api/rows?query=${encodeURIComponent(name)}`).catch(() => ({ rows: null, why: "they cannot be read." }));
    if (this.chosen !== name) return;
    this.rows.replaceChildren(found.rows?.length ? table(found.columns, found.rows.map((row) => row.map((cell) => (cell === null ? "NULL" : String(cell))))) : el("p", { class: "quiet" }, `Not shown: ${found.why}`));
  }

  weigh(weighed) {
    const rows = weighed.candidates.map((one) => [one.chosen ? el("strong", {}, `${one.name} (chosen)`) : one.name, el("code", {}, one.tree), number(one.micros_an_input_row), number(one.tuples_sent), number(one.rows_stored), String(one.waves)]);
    return el("div", {}, table(["plan", "tree", "µs an input row", "tuples sent", "rows stored", "waves"], rows, [2, 3, 4, 5]),
      weighed.statistics ? null : el("p", { class: "quiet" }, "Nothing was known of the streams: these numbers rest on defaults."));
  }
}

// "orders o within 10 minutes, lines lines within ..." -> "orders o, lines"
const joined = (from) => from.split(", ").map((one) => one.replace(/ within .*/, "").split(" ")).map(([stream, alias]) => (stream === alias || !alias ? stream : `${stream} ${alias}`)).join(", ");

function asSql(facts) {
  return [`SELECT ${facts.select}`, `FROM ${facts.from}`, facts.where ? `WHERE ${facts.where}` : null, facts["group by"] ? `GROUP BY ${facts["group by"]}` : null, facts.having ? `HAVING ${facts.having}` : null].filter(Boolean).join("\n");
}
