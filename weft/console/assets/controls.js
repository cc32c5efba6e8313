// What a viewer may change, where the session was started with control. Everything asks first.

import { el, post } from "./words.js";

const dialog = () => document.getElementById("dialog");

export function tell(title, ...children) {
  const box = dialog();
  box.replaceChildren(el("h2", {}, title), ...children, el("p", { class: "row" }, el("button", { onclick: () => box.close() }, "Close")));
  box.showModal();
}

export function ask(title, fields, verb, act) {
  const box = dialog(), said = el("p", { class: "bad", role: "alert" });
  const form = el("form", { onsubmit: async (event) => {
    event.preventDefault();
    try {
      await act(Object.fromEntries(new FormData(form)));
      box.close();
    } catch (error) {
      said.textContent = [error.message, error.detail, error.hint].filter(Boolean).join(" ");
    }
  } }, el("h2", {}, title), ...fields, said, el("p", { class: "row" }, el("button", { type: "button", onclick: () => box.close() }, "Cancel"), el("button", { class: "danger" }, verb)));
  box.replaceChildren(form);
  box.showModal();
}

export class Controls {
  constructor(app) {
    this.app = app;
    this.said = { offers: [], choices: [], about: "" };
    this.panels = [];
  }

  take(said) {
    this.said = said;
    for (const panel of this.panels) this.fill(panel);
  }

  panel() {
    const panel = el("section", { class: "card" });
    this.panels.push(panel);
    this.fill(panel);
    return panel;
  }

  fill(panel) {
    const { choices, about } = this.said;
    panel.hidden = !choices.length;
    if (!choices.length || panel.contains(document.activeElement)) return;
    panel.replaceChildren(el("h2", {}, "Try it"), el("p", { class: "quiet" }, about), el("p", { class: "row" }, choices.map((one) => el("label", {}, one.label,
      el("select", { name: one.name, onchange: (event) => this.set(one.name, event.target) }, one.values.map((value) => el("option", { value, selected: value === one.value }, value)))))));
  }

  async set(name, select) {
    select.disabled = true;
    try {
      this.said = (await post("/api/control/choose", { [name]: select.value })).control;
    } catch (error) {
      tell("That was not possible", el("p", {}, error.message), el("p", {}, error.detail ?? ""), el("p", {}, error.hint ?? ""));
    }
    select.disabled = false;
  }

  queryButtons() {
    const { offers } = this.said, made = [];
    if (offers.includes("add")) made.push(el("button", { onclick: () => this.add() }, "Add a query"));
    if (offers.includes("stop")) made.push(el("button", { class: "danger", onclick: () => this.stop() }, "Stop the run"));
    return made;
  }

  dropButton(name) {
    if (!this.said.offers.includes("drop")) return [];
    return [el("p", {}, el("button", { class: "danger", onclick: () => ask(`Drop query ${name}?`, [el("p", {}, "What only it needs is removed from the state. Its results stay where they are.")], "Drop it", () => post("/api/control/drop", { query: name, confirm: name })) }, "Drop this query"))];
  }

  add() {
    ask("Add a query", [
      el("label", {}, "Name", el("input", { name: "query", required: true })), el("label", {}, "SQL", el("textarea", { name: "sql", required: true })),
      el("label", {}, "Folder for its results", el("input", { name: "into", required: true }))], "Add it", (given) => post("/api/control/add", { ...given, confirm: given.query }));
  }

  stop() {
    ask("Stop the run?", [el("p", {}, "The current batch is finished first. The next run goes on from there.")], "Stop it", () => post("/api/control/stop", { confirm: "stop" }));
  }
}
