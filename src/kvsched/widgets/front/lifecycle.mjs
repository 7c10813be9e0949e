// A page table by hand. The stored moves are stepped through without Python; a move of the
// reader's own follows the one shown, takes the place of those after it, and is played by Python.
import { el } from "./dom.mjs";
import { stepper } from "./stepper.mjs";

export function lifecycle(host) {
  const last = () => host.data.steps.length - 1;
  const now = () => Math.min(host.selection.step, last());
  const at = () => host.data.steps[now()];
  const bar = stepper({ count: () => last() + 1, now, go: (step, quiet) => host.select({ step }, quiet) });
  const whom = el("select", { onchange: () => host.select({ who: whom.value }) });
  const hand = el("div", { class: "kv-hand", role: "toolbar", "aria-label": "moves" });
  const undo = el("button", { type: "button", "aria-keyshortcuts": "u", onclick: back }, "undo ", el("kbd", {}, "u"));
  const reset = el("button", { type: "button", onclick: again }, "worked moves");
  const worked = host.params.moves;
  let figure;
  let asked = null; // moves that Python has not played yet

  const moves = () => asked ?? host.data.steps.slice(1).map(({ move }) => move);
  /** The moves up to the one shown; of those asked for, all. */
  const sofar = () => moves().slice(0, host.selection.step);
  /** The next name that no start or fork has taken; the last one if all are. */
  function unused() {
    const { steps, names } = host.data;
    const taken = sofar().map((move, at) => {
      const [what, who, fork] = move.split(" "), played = steps[at + 1];
      return played?.move === move && played.refused ? null : { start: who, fork }[what];
    });
    return names.find((name) => !taken.includes(name)) ?? names.at(-1);
  }
  /** The move a button makes: of whom is chosen; a start or a fork takes an unused name. */
  function said({ what }) {
    const { who } = host.selection;
    if (what === "start") return `start ${unused()} 3`;
    return what === "fork" ? `fork ${who} ${unused()}` : `${what} ${who}`;
  }
  function make(button) {
    if (sofar().length >= host.data.most) return;
    const move = said(button);
    ask([...sofar(), move], button.what === "start" ? move.split(" ")[1] : host.selection.who);
  }
  function ask(wanted, who = host.selection.who) {
    if (host.fixed) return;
    asked = wanted;
    host.select({ step: wanted.length, who });
    host.change({ moves: wanted.join("; ") });
  }
  function back() {
    ask(sofar().slice(0, -1));
  }
  function again() {
    asked = null;
    host.select({ step: 0 });
    host.change({ moves: worked });
  }
  function choose(by) {
    const ids = at().requests.map(({ id }) => id);
    if (!ids.length) return;
    host.select({ who: ids[(Math.max(0, ids.indexOf(host.selection.who)) + by + ids.length) % ids.length] });
  }
  const buttons = host.data.buttons.map((one) => {
    const made = el("button", { type: "button", "data-move": one.what, "aria-keyshortcuts": one.key, onclick: () => make(one) }, `${one.label} `, el("kbd", {}, one.key));
    return { ...one, made };
  });
  hand.append(el("label", {}, "Request ", whom), ...buttons.map(({ made }) => made), undo, reset);
  host.body.replaceChildren(hand, host.figure, bar.box);

  /** A new figure takes the old one's place; all else stays, and so does the focus. */
  function draw() {
    figure?.replaceWith(host.figure);
    figure = host.figure;
    figure.addEventListener("click", (event) => {
      const step = event.target.closest("[data-step]")?.dataset.step;
      if (step !== undefined) host.select({ step: Number(step) });
    });
    host.reserve(host.data.steps.reduce((one, { says }) => (says.length > one.length ? says : one), ""));
  }
  /** The requests there are after the move shown; one chosen before stays chosen. */
  function offer() {
    const ids = at().requests.map(({ id }) => id);
    const names = ids.includes(host.selection.who) ? ids : [...ids, host.selection.who];
    whom.replaceChildren(...names.map((id) => el("option", {}, id)));
    whom.value = host.selection.who;
  }
  return {
    update() {
      if (asked?.join("; ") === host.params.moves) asked = null;
      if (figure !== host.figure) draw();
      for (const mark of figure.querySelectorAll(".kv-step, .kv-layer")) {
        mark.classList.toggle("is-current", Number(mark.dataset.step) === now());
      }
      offer();
      const full = now() >= host.data.most;
      for (const { made } of buttons) made.disabled = host.fixed || full;
      undo.disabled = host.fixed || now() === 0;
      reset.disabled = host.fixed;
      bar.update();
      const { says, refused } = at();
      const [first, ...rest] = says.split(" ");
      host.say(...(refused ? [el("b", { class: "kv-refused" }, first), ` ${rest.join(" ")}`] : [says]));
    },
    key(event) {
      const button = buttons.find(({ key }) => key === event.key);
      if (button) make(button);
      else if (event.key === "u") back();
      else if (event.key === "ArrowUp" || event.key === "ArrowDown") choose(event.key === "ArrowUp" ? -1 : 1);
      else return bar.key(event);
      return true;
    },
    end: bar.end,
  };
}
