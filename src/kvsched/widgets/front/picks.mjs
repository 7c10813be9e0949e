// A figure of several runs, of which one is picked: by button, arrow key, or on the figure itself.
// In the figure, `.kv-pick` marks what belongs to a run and can be hit, `.kv-layer` what is seen
// only while its run is picked; `data-pick` says which run.
import { el } from "./dom.mjs";

export function picks(host) {
  const last = () => host.data.picks.length - 1;
  const now = () => Math.min(host.selection.pick, last());
  const bar = el("div", { class: "kv-picks", role: "group", "aria-label": "what to look at" });
  let figure;
  const hit = (event) => {
    const pick = event.target.closest("[data-pick]")?.dataset.pick;
    if (pick !== undefined) host.select({ pick: Number(pick) });
  };
  function button(name, pick) {
    return el("button", { type: "button", onclick: () => host.select({ pick }) }, name);
  }
  return {
    update() {
      if (figure !== host.figure) {
        figure = host.figure;
        figure.addEventListener("click", hit);
        if (bar.childElementCount !== host.data.picks.length) bar.replaceChildren(...host.data.picks.map(button));
        host.body.replaceChildren(bar, figure);
        host.reserve(host.data.says.reduce((one, other) => (other.length > one.length ? other : one)));
      }
      [...bar.children].forEach((one, pick) => one.setAttribute("aria-pressed", pick === now()));
      for (const mark of figure.querySelectorAll(".kv-pick, .kv-layer")) {
        mark.classList.toggle("is-current", Number(mark.dataset.pick) === now());
      }
      host.say(host.data.says[now()]);
    },
    key(event) {
      const moves = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -now(), End: last() - now() };
      if (!(event.key in moves)) return false;
      host.select({ pick: Math.max(0, Math.min(last(), now() + moves[event.key])) });
      return true;
    },
    end() {},
  };
}
