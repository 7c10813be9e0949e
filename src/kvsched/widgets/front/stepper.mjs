// Time: step back and forth, jump, play. Any renderer whose selection has a step can use it.
import { el } from "./dom.mjs";

const BEAT_MS = 900;

/** A bar over `count()` steps. `go(step, quiet)` is called for each move; quiet while it plays. */
export function stepper({ count, now, go }) {
  let timer = null;
  const last = () => count() - 1;
  const to = (step, quiet = false) => go(Math.max(0, Math.min(last(), step)), quiet);
  const slider = el("input", { type: "range", min: 0, step: 1, "aria-label": "step", oninput: () => {
    pause();
    to(Number(slider.value));
  } });
  const play = el("button", { type: "button", class: "kv-play", onclick: toggle });
  const back = el("button", { type: "button", "aria-label": "one step back", onclick: () => move(-1) }, "◀");
  const on = el("button", { type: "button", "aria-label": "one step on", onclick: () => move(1) }, "▶");
  const place = el("span", { class: "kv-place" });
  const box = el("div", { class: "kv-stepper" }, play, back, slider, on, place);

  function move(by) {
    pause();
    to(now() + by);
  }
  function toggle() {
    if (timer !== null) return pause();
    if (now() >= last()) to(0, true);
    timer = setInterval(() => (now() < last() ? to(now() + 1, true) : pause()), BEAT_MS);
    update();
  }
  function pause() {
    if (timer === null) return;
    clearInterval(timer);
    timer = null;
    to(now());
  }
  function update() {
    slider.max = last();
    slider.value = now();
    slider.setAttribute("aria-valuetext", `step ${now()} of ${last()}`);
    place.textContent = `step ${now()} of ${last()}`;
    play.textContent = timer === null ? "Play" : "Pause";
    back.disabled = now() <= 0;
    on.disabled = now() >= last();
  }
  /** Handle a key pressed anywhere in the widget; true if it was one of ours. */
  function key(event) {
    const leap = event.shiftKey ? 10 : 1;
    if (event.key === "ArrowLeft") move(-leap);
    else if (event.key === "ArrowRight") move(leap);
    else if (event.key === "Home") move(-now());
    else if (event.key === "End") move(last());
    else if (event.key === " " && !event.target.closest("button")) toggle();
    else return false;
    return true;
  }
  update();
  return { box, update, key, end: () => clearInterval(timer) };
}
