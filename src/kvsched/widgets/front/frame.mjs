// The frame around every view, in a kernel's front end and on a page: controls, sentence, the
// renderer's picture, and the line that says how Python is doing.
import { admission } from "./admission.mjs";
import { asking } from "./asking.mjs";
import { controls } from "./controls.mjs";
import { el, parsed } from "./dom.mjs";
import { lifecycle } from "./lifecycle.mjs";
import { picks } from "./picks.mjs";
import { player } from "./player/player.mjs";
import { players } from "./player/players.mjs";
import { states } from "./states.mjs";
import { tour } from "./tour.mjs";

/* A renderer is a function of the host that returns { update, key, end }.
   host.data, host.figure, host.selection  what there is now; `figure` is a new element whenever
                                           Python drew anew, and is the renderer's to mark
   host.body                               the element to fill
   host.said                               the element of the sentence, which a renderer may move
   host.select(patch, quiet)               change the selection; update() follows
   host.params, host.change(patch)         the parameters; change them and ask Python
   host.fixed                              true where Python is not to be had
   host.say(...nodes)                      the sentence; it is read aloud unless quiet
   host.reserve(text)                      keep room for this sentence, so that nothing jumps
   update()    show the present data and selection
   key(event)  a key pressed inside the widget and outside its fields; true if it was used
   end()       stop timers */
const RENDERERS = { admission, lifecycle, picks, player, players, states, tour };
const PATIENCE_MS = 400;

export function render({ model, el: root }) {
  const at = () => model.get("state");
  const ask = asking(model);
  const summary = el("p", { class: "kv-summary" });
  const sentence = el("p", { class: "kv-sentence", "aria-live": "polite" });
  const longest = el("p", { class: "kv-sentence kv-longest", "aria-hidden": "true" });
  const note = el("p", { class: "kv-note", role: "status" });
  const box = el("section", { class: "kv-w", role: "group", "aria-label": at().label });
  const host = {
    body: el("div", { class: "kv-body" }),
    said: el("div", { class: "kv-said" }, longest, sentence),
    figure: parsed(model.get("figure")),
    get data() { return at().data; },
    get selection() { return at().selection; },
    get params() { return at().params; },
    get fixed() { return Boolean(model.get("fixed")); },
    select(patch, quiet = false) {
      sentence.setAttribute("aria-live", quiet ? "off" : "polite");
      model.set("state", { ...at(), selection: { ...at().selection, ...patch } });
      renderer.update();
    },
    change(patch) {
      Object.assign(wanted, patch);
      panel.show(wanted);
      compute();
    },
    say(...nodes) { sentence.replaceChildren(...nodes); },
    reserve(text) { longest.textContent = text; },
  };
  const wanted = { ...at().params };
  const renderer = RENDERERS[at().renderer](host);
  const panel = controls(at().controls, wanted, (name, value) => {
    wanted[name] = value;
    compute();
  });

  let slow = null;
  function compute() {
    clearTimeout(slow);
    slow = setTimeout(() => { if (ask.busy() && !note.textContent) tell({ text: "Computing …" }); }, PATIENCE_MS);
    ask.want({ params: { ...wanted }, selection: at().selection });
  }
  function tell({ text = "", retry = false }) {
    note.replaceChildren(text, ...(retry ? [" ", el("button", { type: "button", onclick: ask.again.bind(ask) }, "Try again")] : []));
  }
  function answered() {
    const reply = model.get("reply");
    if (!ask.busy()) clearTimeout(slow);
    if (reply.failed) return tell({ text: reply.failed, retry: true });
    if (reply.error) return tell({ text: reply.error });
    tell({});
    model.set("state", { ...at(), params: reply.params, data: reply.data });
    host.figure = parsed(reply.figure);
    show();
  }
  function show() {
    summary.textContent = host.data.sentence;
    renderer.update();
  }
  function travel() {
    const { params, selection } = model.get("goal");
    host.select(selection);
    if (Object.keys(params).every((name) => params[name] === wanted[name])) return;
    Object.assign(wanted, params);
    panel.show(wanted);
    compute();
  }
  box.addEventListener("keydown", (event) => {
    event.stopPropagation(); // else JupyterLab takes the arrow keys off the controls
    const typing = event.target.closest("input, select, textarea");
    if (!typing && !event.altKey && !event.ctrlKey && !event.metaKey && renderer.key(event)) event.preventDefault();
  });
  const told = () => tell(model.get("note"));
  const fixed = () => {
    if (!host.fixed) return;
    panel.disable();
    renderer.update();
  };
  const listeners = { reply: answered, note: told, goal: travel, fixed };
  for (const [name, listener] of Object.entries(listeners)) model.on(`change:${name}`, listener);

  if (at().controls.length) box.append(panel.box, note);
  box.append(summary, host.said, host.body);
  show();
  root.append(box);
  return () => {
    for (const [name, listener] of Object.entries(listeners)) model.off(`change:${name}`, listener);
    clearTimeout(slow);
    ask.end();
    renderer.end();
  };
}
