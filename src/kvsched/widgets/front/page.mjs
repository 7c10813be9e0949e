// A page without a kernel: makes every widget live from what is stored beside it.
import { goal, read, write } from "./address.mjs";
import { render } from "./frame.mjs";
import { predicting } from "./predict.mjs";
import { runtime } from "./runtime.mjs";

const FROM_FILE = "This page was opened as a file, so what is stored can be looked through but nothing computed. "
  + "To make it live, run “python -m http.server” in the book’s folder and open http://localhost:8000.";

/** What a kernel's front end gives the frame: values, listeners, and a way to ask. */
class Model {
  constructor(values, ask) {
    this.values = values;
    this.listeners = {};
    this.ask = ask;
  }
  get(name) { return this.values[name]; }
  set(name, value) {
    this.values[name] = value;
    for (const listener of this.listeners[`change:${name}`] ?? []) listener();
  }
  on(event, listener) { (this.listeners[event] ??= []).push(listener); }
  off(event, listener) { this.listeners[event] = this.listeners[event]?.filter((one) => one !== listener); }
  async save_changes() {
    const { serial, params, selection } = this.get("ask");
    const began = performance.now();
    const question = { view: this.get("state").view, params, selection };
    const reply = await this.ask(question, (note) => this.set("note", note));
    this.set("reply", { serial, params, ...reply });
    performance.measure("kv-run", { start: began, end: performance.now() });
  }
}

export function start() {
  const fromFile = location.protocol === "file:";
  const python = runtime(document.currentScript.src);
  const widgets = [...document.querySelectorAll(".kv-widget")].map((box) => revive(box, python, fromFile));
  document.querySelectorAll(".kv-predict").forEach(predicting);
  const follow = () => {
    const there = read(location.hash);
    if (!there) return;
    for (const { name, model, first } of widgets) model.set("goal", goal(first, there[name] ?? {}));
    document.getElementById(`widget-${Object.keys(there)[0]}`)?.scrollIntoView({ block: "nearest" });
  };
  follow();
  addEventListener("hashchange", follow);
  for (const { model } of widgets) model.on("change:state", () => remember(widgets));
  if (!fromFile) prefetch(widgets, python);
}

function revive(box, python, fromFile) {
  const state = JSON.parse(box.querySelector("script").textContent);
  const stage = box.querySelector(".kv-stage");
  const words = stage.querySelector(".kv-table");
  const model = new Model({ state, figure: stage.querySelector("svg").outerHTML }, python.ask);
  stage.replaceChildren();
  render({ model, el: stage });
  stage.append(words);
  model.on("change:reply", () => { if (model.get("reply").data) words.remove(); }); // of another run
  if (fromFile && state.controls.length) {
    model.set("fixed", true);
    model.set("note", { text: FROM_FILE });
  }
  return { box, name: state.name, model, first: state };
}

/** Put what differs into the address, soon: browsers limit how often it may change. */
let due = null;
function remember(widgets) {
  clearTimeout(due);
  due = setTimeout(() => {
    const fragment = write(widgets.map(({ name, first, model }) => ({ name, first, state: model.get("state") })));
    if (fragment !== location.hash) history.replaceState(history.state, "", fragment || location.pathname + location.search);
  }, 150);
}

/** Load Python when a widget that needs it comes near, unless the reader saves data. */
function prefetch(widgets, python) {
  if (navigator.connection?.saveData) return;
  const idle = globalThis.requestIdleCallback ?? ((run) => setTimeout(run, 200));
  const near = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    near.disconnect();
    idle(() => python.warm());
  }, { rootMargin: "600px" });
  for (const { box, first } of widgets) if (first.controls.length) near.observe(box);
}
