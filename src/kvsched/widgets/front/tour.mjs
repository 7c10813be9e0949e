// The small run: the figure's columns are steps, and the sentence says what happened in one.
import { stepper } from "./stepper.mjs";

export function tour(host) {
  const last = () => host.data.steps.length - 1;
  const now = () => Math.min(host.selection.step, last());
  const bar = stepper({
    count: () => host.data.steps.length,
    now,
    go(step, quiet) {
      host.select({ step }, quiet);
    },
  });
  let figure;
  const hit = (event) => {
    const step = event.target.closest("[data-step]")?.dataset.step;
    if (step !== undefined) host.select({ step: Number(step) });
  };
  return {
    update() {
      if (figure !== host.figure) {
        figure = host.figure;
        figure.addEventListener("click", hit);
        host.body.replaceChildren(figure, bar.box);
        host.reserve(longest(host.data.steps.map((step) => step.says)));
      }
      figure.querySelectorAll(".kv-step").forEach((column, step) => {
        column.classList.toggle("is-current", step === now());
      });
      bar.update();
      host.say(host.data.steps[now()].says);
    },
    key: bar.key,
    end: bar.end,
  };
}

const longest = (texts) => texts.reduce((one, other) => (other.length > one.length ? other : one));
