// The whole run in one line, under the lanes and on the same x where it fits: a slider with four
// rows of ticks.
import { el } from "../dom.mjs";
import { penOn } from "./pen.mjs";

const ROWS = [["preempted", "lost", "preempted", "preempted"], ["resumed", "back", "prefill", "prefill-text"],
  ["denied", "", "waiting", "waiting"], ["finished", "end", "done-ring", "soft"]];

/** The slider; `go(step)` is called while it is dragged. */
export function scrubber(go) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const box = el("div", { class: "kv-scrub", role: "slider", tabindex: 0, "aria-label": "step", "aria-valuenow": 0 }, canvas);
  let place = { left: 0, wide: 1 };
  const at = (event) => go(Math.floor((event.clientX - canvas.getBoundingClientRect().left - place.left) / place.wide));
  box.addEventListener("pointerdown", (event) => {
    box.setPointerCapture(event.pointerId);
    at(event);
  });
  box.addEventListener("pointermove", (event) => { if (event.buttons) at(event); });
  return {
    box,
    draw(look, run, lanes, { step, hide, mark }) {
      place = drawScrub(canvas, look, run, lanes, { step, hide, mark });
      box.setAttribute("aria-valuemin", 0);
      box.setAttribute("aria-valuemax", run.last);
      box.setAttribute("aria-valuenow", step);
      box.setAttribute("aria-valuetext", `step ${step} of ${run.last}${step === mark ? ", the first difference" : ""}`);
    },
  };
}

function drawScrub(canvas, look, run, lanes, { step, hide, mark }) {
  const { narrow } = lanes, all = lanes.seen >= run.count;
  const left = narrow ? 10 : lanes.left, room = lanes.width - left - (narrow ? 10 : lanes.right);
  const wide = (all && !narrow ? run.count * lanes.wide : room) / run.count;
  const place = { left, wide, x: (at) => left + at * wide };
  const pen = penOn(canvas, lanes.width, narrow ? 50 : 58, look);
  const rail = narrow ? 36 : 46, here = place.x(step) + wide / 2;
  const until = hide ? step : run.last;
  ROWS.forEach(([name, kind, ink, text], row) => {
    const y = narrow ? 4 + row * 7 : 3 + row * 10, high = narrow ? 4.5 : 6.5;
    const any = kind ? ticks(pen, run, place, { kind, y, high, ink, until }) : denials(pen, run, place, { y: y + high / 2 - 1, until });
    if (!narrow) pen.text(name, left - 8, y + 6.5, { size: 10.5, align: "right", ink: any ? text : "hairline-strong" });
  });
  if (!all) {
    pen.box(place.x(lanes.from), 1, lanes.seen * wide, rail - 6, 3);
    pen.to.strokeStyle = pen.ink["hairline-strong"];
    pen.to.lineWidth = 1;
    pen.to.stroke();
    pen.fill(place.x(lanes.from), 1, lanes.seen * wide, rail - 6, "text", 0.06);
  }
  pen.line(left, rail, place.x(run.count), rail, "hairline-strong", 2);
  pen.line(left, rail, here, rail, "text", 2);
  pen.line(here, 0, here, rail, "text", 1.2);
  pen.dot(here, rail, narrow ? 9 : 7, "text", "paper");
  if (mark !== null) different(pen, place.x(mark) + wide / 2, rail);
  return place;
}

/** A step that is marked: a dashed line, and the sign beside its foot. */
function different(pen, x, rail) {
  pen.line(x, 0, x, rail, "text", 1.6, [3, 2.5]);
  pen.text("≠", x + 11, rail - 4, { size: 16, weight: 700 });
}

function ticks(pen, run, { x, wide }, { kind, y, high, ink, until }) {
  const thick = Math.min(2.5, Math.max(1.6, wide * 0.7));
  let any = false;
  for (const lane of run.lanes) {
    for (const mark of lane.marks) {
      if (mark.kind !== kind) continue;
      any = true;
      if (mark.step <= until) pen.fill(x(mark.step) + Math.max(0, wide / 2 - thick / 2), y, thick, high, ink);
    }
  }
  return any;
}

/** A line for as long as a denial stands. */
function denials(pen, run, { x, wide }, { y, until }) {
  const { denied } = run.trace;
  for (let at = 0; at < denied.length; at += 2) {
    const length = Math.min(denied[at + 1], until + 1 - denied[at]);
    if (length > 0) pen.fill(x(denied[at]), y, Math.max(1.5, length * wide - (wide > 6 ? 1.5 : 0)), 2, "waiting");
  }
  return denied.length > 0;
}
