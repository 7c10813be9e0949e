// Time: step, play, speed, the next preemption or changed denial, and whether the future shows.
import { el } from "../dom.mjs";

const BEAT = 900;
const SPEEDS = [0.5, 1, 2, 4];

const ICONS = {
  play: "M3 1.5v13L14 8z",
  pause: "M3 2h3.6v12H3zM9.4 2H13v12H9.4z",
  back: "M12 2 6 8l6 6zM3 2h2v12H3z",
  on: "m4 2 6 6-6 6zM11 2h2v12h-2z",
  left: "M11 2 4 8l7 6z",
  right: "m5 2 7 6-7 6z",
};

/** Buttons over a run. `go(step, quiet)` moves, `stop(by)` gives the next place worth a stop. */
export function transport({ now, last, stop, go, hide }) {
  let timer = null, speed = 1;
  const move = (step, quiet = false) => go(Math.max(0, Math.min(last(), step)), quiet);
  const by = (steps) => { pause(); move(now() + steps); };
  const jump = (way) => { pause(); move(stop(way) ?? now()); };
  const diamond = () => el("i", { class: "kv-diamond" });
  const button = (label, press, ...inside) => el("button", { type: "button", "aria-label": label, title: label, onclick: press }, ...inside);
  const before = button("previous preemption or denial", () => jump(-1), icon("left"), diamond());
  const back = button("one step back", () => by(-1), icon("back"));
  const play = button("play", toggle, icon("play"));
  const on = button("one step on", () => by(1), icon("on"));
  const after = button("next preemption or denial", () => jump(1), diamond(), el("span", {}, "next preemption or denial"), icon("right"));
  play.className = "kv-play";
  before.className = after.className = "kv-jump";
  const future = el("button", { type: "button", class: "kv-future", title: "F", onclick: () => hide() });
  const box = el("div", { class: "kv-transport" },
    el("div", { class: "kv-buttons", role: "group", "aria-label": "Steps" }, before, back, play, on, after), speeds(), future, hints());

  function speeds() {
    const choose = (value) => {
      speed = value;
      mark();
      if (timer !== null) start();
    };
    const each = SPEEDS.map((value) => el("button", { type: "button", onclick: () => choose(value) }, times(value)));
    const cycle = el("button", { type: "button", class: "kv-cycle", onclick: () => choose(SPEEDS[(SPEEDS.indexOf(speed) + 1) % SPEEDS.length]) });
    const mark = () => {
      each.forEach((one, i) => one.setAttribute("aria-pressed", SPEEDS[i] === speed));
      cycle.textContent = times(speed);
      cycle.setAttribute("aria-label", `speed ${times(speed)}, change`);
    };
    mark();
    return el("div", { class: "kv-speed", role: "group", "aria-label": "Speed" }, el("span", { "aria-hidden": "true" }, "speed"), ...each, cycle);
  }
  function start() {
    clearInterval(timer);
    timer = setInterval(() => (now() < last() ? move(now() + 1, true) : pause()), BEAT / speed);
  }
  function toggle() {
    if (timer !== null) return pause();
    if (now() >= last()) move(0, true);
    start();
    return update();
  }
  function pause() {
    if (timer === null) return;
    clearInterval(timer);
    timer = null;
    move(now());
  }
  function update(hidden) {
    const running = timer !== null;
    play.replaceChildren(icon(running ? "pause" : "play"));
    play.setAttribute("aria-label", running ? "pause" : "play");
    back.disabled = now() <= 0;
    on.disabled = now() >= last();
    before.disabled = stop(-1) === null;
    after.disabled = stop(1) === null;
    if (hidden !== undefined) future.textContent = hidden ? "show the future" : "hide the future";
  }
  return { box, update, by, jump, toggle, pause, to: (step) => { pause(); move(step); }, end: () => clearInterval(timer) };
}

const times = (value) => `${value === 0.5 ? "½" : value}×`;

function icon(name) {
  const holder = document.createElement("template");
  holder.innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${ICONS[name]}"/></svg>`;
  return holder.content.firstElementChild;
}

function hints() {
  const keys = [[["←", "→"], "step"], [["space"], "play"], [["[", "]"], "event"], [["↑", "↓"], "request"]];
  return el("p", { class: "kv-keys", "aria-hidden": "true" },
    ...keys.map(([caps, does]) => el("span", {}, ...caps.map((cap) => el("kbd", {}, cap)), does)));
}
