// Requests over time. A lane's height is work held; the hatch is work that could still be found.
import { labelsOf } from "./labels.mjs";
import { fitting, penOn } from "./pen.mjs";
import { num, phaseName } from "./run.mjs";

const TOP = 26;

/** Where everything stands: rows, the steps in sight, and the width of a step. */
export function laneLayout(run, width, selected, step) {
  const many = run.lanes.length > 8, narrow = width < 600;
  const left = narrow ? (many ? 26 : 28) : (many ? 112 : 152), right = narrow ? 2 : 8;
  const room = width - left - right, least = narrow ? (many ? 4 : 13) : (many ? 3.2 : 9);
  const seen = Math.max(1, Math.min(run.count, Math.floor(room / least)));
  const wide = Math.min(room / seen, many ? 14 : 34);
  const from = seen < run.count ? Math.max(0, Math.min(run.count - seen, step - Math.floor(seen * 0.45))) : 0;
  let y = TOP;
  const rows = run.lanes.map((lane) => {
    const open = !many || lane.id === selected;
    const head = open ? (many ? 18 : 17) : 2, high = open ? (many || narrow ? 42 : 46) : (narrow ? 11 : 13);
    const row = { lane, open, y, top: y + head, base: y + head + high, high };
    y = row.base + (open ? 10 : 1);
    return row;
  });
  return { width, left, right, many, narrow, room, seen, wide, from, to: from + seen, rows, height: y + 4,
    x: (at) => left + (at - from) * wide };
}

export function drawLanes(canvas, look, run, place, { step, selected, hide, board }) {
  const pen = penOn(canvas, place.width, place.height, look);
  axis(pen, place, step);
  const labels = [];
  for (const row of place.rows) {
    lane(pen, place, row, run.tallest);
    labels.push(...labelsOf(pen, place, row, run, step));
  }
  for (const label of labels.filter((one) => !one.past)) label.draw();
  now(pen, place, step, hide);
  for (const label of labels.filter((one) => one.past)) label.draw();
  pill(pen, place, step);
  for (const row of place.rows) gutter(pen, place, row, { step, selected, board });
  const say = ({ lane }) => `${lane.id} ${wordFor(lane, step)}`;
  canvas.setAttribute("aria-label", `${place.rows.length} requests over ${run.count} steps. At step ${step}: `
    + `${place.rows.slice(0, 24).map(say).join(", ")}${place.rows.length > 24 ? ", and more" : ""}.`);
}

function axis(pen, { x, wide, from, to, narrow }, step) {
  const every = [1, 2, 5, 10, 20, 50].find((each) => each * wide >= 44) ?? 100;
  for (let at = Math.ceil(from / every) * every; at < to; at += every) {
    if (Math.abs(at - step) * wide > 30) pen.text(num(at), x(at) + wide / 2, 12, { size: 11, align: "center" });
  }
  if (!narrow) pen.text("height: tokens held", 0, 12, { size: 11 });
}

function lane(pen, place, row, tallest) {
  const { to, ink } = pen, { left, wide, from, to: until, x } = place;
  pen.line(left, row.base + 0.5, left + place.seen * wide, row.base + 0.5, "hairline");
  to.save();
  to.beginPath();
  to.rect(left, 0, place.seen * wide, place.height);
  to.clip();
  for (const segment of row.lane.segments) {
    if (segment.to <= from || segment.from >= until) continue;
    const part = { ...segment, first: Math.max(segment.from, from), last: Math.min(segment.to, until) };
    (FORMS[segment.phase] ?? still)(pen, place, row, part, (tokens) => (tokens / tallest) * row.high);
  }
  to.restore();
  if (wide >= 8 && row.open) {
    to.globalAlpha = 0.55;
    for (let at = from + 1; at < until; at++) pen.line(x(at), row.top - 2, x(at), row.base, "paper");
    to.globalAlpha = 1;
  }
  if (row.open && wide >= 3.2) dots(pen, place, row, ink);
}

/** Solid, one step after the other: what decodes grows by a token each. */
function growing(pen, { x, wide }, row, part, high, alpha = 1) {
  const { to } = pen;
  to.globalAlpha = alpha;
  to.fillStyle = pen.ink[part.phase];
  to.beginPath();
  to.moveTo(x(part.first), row.base);
  for (let at = part.first; at < part.last; at++) {
    const y = row.base - Math.max(1, high(part.height + part.rise * (at - part.from)));
    to.lineTo(x(at), y);
    to.lineTo(x(at) + wide, y);
  }
  to.lineTo(x(part.last), row.base);
  to.fill();
  to.globalAlpha = 1;
}

function prefilling(pen, { x, wide }, row, part, high) {
  const base = row.base - high(part.base), least = row.open ? 3 : 1.5;
  const cap = Math.max(high(part.height) - high(part.base), least);
  for (let at = part.first; at < part.last; at++) {
    if (part.found) {
      pen.fill(x(at), base, wide, row.base - base, pen.hatch("prefill", 0.1));
    } else if (part.base) {
      pen.fill(x(at), base, wide, row.base - base, "prefill", 0.34);
    }
    pen.fill(x(at), base - cap, wide, cap, "prefill");
  }
}

/** Who does not run: a bar on the baseline, above it what it holds (solid) or would find (hatch). */
function still(pen, { x }, row, part, high) {
  const from = x(part.first), wide = x(part.last) - from, bar = row.open ? 3 : 2.2, { phase } = part;
  if (part.height) pen.fill(from, row.base - high(part.height), wide, high(part.height), phase);
  if (part.found) {
    const top = row.base - high(part.found);
    if (row.open) pen.fill(from, top, wide, row.base - top, pen.hatch(phase));
    else pen.fill(from, top, wide, row.base - top, phase, 0.3);
    pen.line(from, top, from + wide, top, phase, 1.2, row.open ? [3, 2.5] : [2, 2]);
  }
  const y = row.base - bar / 2;
  const dash = phase === "waiting" && !row.open ? [1.5, 2.5] : [];
  pen.line(from, y, from + wide, y, phase, bar, dash);
  if (phase === "blocked-outside") {
    const above = Math.max(row.top + 1, row.base - high(part.height) - (row.open ? 9 : 5));
    pen.line(from, above, from + wide, above, phase, row.open ? 2.5 : 1.5, row.open ? [2, 4] : [1.5, 2.5]);
  }
}

function draining(pen, place, row, part, high) {
  growing(pen, place, row, part, high);
  const from = place.x(part.first), top = row.base - high(part.height) - 3;
  pen.to.strokeStyle = pen.ink.draining;
  pen.to.lineWidth = row.open ? 1.6 : 1;
  pen.to.strokeRect(from - 1, top, place.x(part.last) - from + 2, row.base - top);
}

const FORMS = {
  decode: growing,
  idle: (...all) => growing(...all, 0.45),
  prefill: prefilling,
  draining,
};

/** One dot under a step for each token sent in it. */
function dots(pen, { x, wide, from, to }, row) {
  const { sent } = row.lane, radius = Math.min(1.8, wide * 0.3);
  pen.to.globalAlpha = 0.75;
  for (let run = 0; run < sent.length; run += 2) {
    for (let at = Math.max(from, sent[run]); at < Math.min(to, sent[run] + sent[run + 1]); at++) {
      pen.dot(x(at) + wide / 2, row.base + 5.5, radius, "text");
    }
  }
  pen.to.globalAlpha = 1;
}

/** The veil over the future, and the column of the present. */
function now(pen, place, step, hide) {
  const after = place.x(step + 1), end = place.left + place.seen * place.wide;
  if (end > after) pen.fill(after, 17, place.width - after, place.height - 17, "paper", hide ? 1 : 0.67);
  const wide = Math.max(place.wide, 3);
  pen.box(place.x(step) + place.wide / 2 - wide / 2 - 1, 18, wide + 2, place.height - 20, 3);
  pen.to.strokeStyle = pen.ink.text;
  pen.to.lineWidth = 1.4;
  pen.to.stroke();
}

function pill(pen, place, step) {
  const middle = place.x(step) + place.wide / 2, half = Math.max(17, pen.wide(num(step), 11.5, 650) / 2 + 8);
  const at = Math.max(half, Math.min(place.width - half, middle));
  pen.box(at - half, 0, 2 * half, 17, 8.5);
  pen.to.fillStyle = pen.ink.text;
  pen.to.fill();
  pen.text(num(step), at, 12.5, { size: 11.5, align: "center", ink: "paper", weight: 650 });
}

const INK_OF = { preempted: "preempted", prefill: "prefill-text", "blocked-outside": "blocked-outside" };

/** The name at the left and, where there is room, the status in words. */
function gutter(pen, { narrow, many, left }, row, { step, selected, board }) {
  const { lane } = row, cell = lane.at(step), on = lane.id === selected;
  const weight = on ? 750 : row.open ? 550 : 400;
  const room = many || narrow ? (narrow ? left - 3 : 36) : 64;
  const most = row.open ? (many ? 15 : narrow ? 20 : lane.id.length > 2 ? 18 : 22) : 11;
  const size = Math.max(11, Math.min(most, (most * room) / pen.wide(lane.id, most, weight)));
  const name = fitting(pen, lane.id, room, size, weight);
  const y = row.open ? row.base - (narrow || many ? 13 : 19) : row.base - 0.5;
  pen.text(name, 0, y, { size, weight, ink: cell || row.open ? "text" : "done-ring" });
  const after = Math.max(many ? 40 : 34, pen.wide(name, size, weight) + 10);
  if (on) pen.fill(0, y + 4, Math.min(pen.wide(name, size, weight), room), 2.5, "text");
  if (narrow) return;
  const losses = lane.losses(step), out = losses ? `out ${losses}×` : "";
  if (!row.open) {
    pen.text(out, 40, y, { size: 10.5, ink: cell?.phase === "preempted" ? "preempted" : "soft" });
    return;
  }
  const words = fitting(pen, wordFor(lane, step), left - after - 4, many ? 12 : 12.5, 600);
  pen.text(words, after, row.base - (many ? 20 : 26), { size: many ? 12 : 12.5, ink: INK_OF[cell?.phase] ?? "soft", weight: cell ? 600 : 400 });
  pen.text(many ? out : detail(cell, board.lanes.get(lane.id)), after, row.base - (many ? 6 : 10), { size: many ? 11 : 12 });
}

export function wordFor(lane, step) {
  const cell = lane.at(step);
  if (cell) return phaseName(cell.phase);
  return lane.end && lane.end.step < step ? lane.end.rest[0] : "not here yet";
}

function detail(cell, state) {
  if (!cell) return "";
  if (cell.height) return `${num(cell.height)} tokens held`;
  if (cell.phase === "preempted") return `${num(cell.found)} still cached`;
  return state ? `${num(state.num_tokens)} tokens to do` : "";
}
