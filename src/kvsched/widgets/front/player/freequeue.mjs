// The free queue: the next blocks out one by one, the rest as a ribbon by former owner.
import { fitting, penOn } from "./pen.mjs";
import { counted, num } from "./run.mjs";

const CELL = 36;

export function drawQueue(canvas, look, width, blocks, selected) {
  const pen = penOn(canvas, width, 48, look);
  const { queue } = blocks, head = queue.slice(0, width < 420 ? 5 : 7);
  const owner = (block) => (blocks.is(block, "cached") ? blocks.owner[block] : null);
  if (!queue.length) {
    const next = blocks.unit === "block" ? "block that a request needs costs a preemption"
      : blocks.totals.cached ? "page comes from the tree" : "page that a request needs costs a retraction";
    pen.text(`empty: the next ${next}`, 0, 19, { size: width < 420 ? 11.5 : 12.5, ink: "preempted" });
  }
  head.forEach((block, at) => one(pen, blocks, block, at * CELL, at === 0, selected && owner(block) !== selected));
  const groups = [];
  for (const block of queue.slice(head.length)) {
    const last = groups.at(-1);
    if (last && last.owner === owner(block)) last.size += 1;
    else groups.push({ owner: owner(block), size: 1, phase: blocks.phase(block) });
  }
  ribbon(pen, groups, head.length * CELL + 2, width - head.length * CELL - 4, queue.length - head.length);
  canvas.setAttribute("aria-label", queue.length
    ? `Free queue, next out first: ${head.map((block) => `${block}${owner(block) ? `, was ${owner(block)}’s` : ""}`).join("; ")}${queue.length > head.length ? `; then ${num(queue.length - head.length)} more` : ""}.`
    : "The free queue is empty.");
}

const inkOf = (phase) => (phase === "done" ? "done-ring" : phase);
const textOf = (phase) => (phase === "done" ? "soft" : phase === "decode" || phase === "idle" ? "text" : phase);

function one(pen, blocks, block, x, first, faded) {
  const cached = blocks.is(block, "cached"), phase = blocks.phase(block), { to } = pen;
  to.globalAlpha = faded ? 0.4 : 1;
  to.setLineDash(cached ? [] : [2, 3]);
  to.strokeStyle = pen.ink[cached ? inkOf(phase) : "hairline-strong"];
  to.lineWidth = cached ? 1.6 : 1;
  pen.box(x + 1, 1, CELL - 5, 26, 4);
  to.stroke();
  to.setLineDash([]);
  to.globalAlpha = 1;
  const middle = x + CELL / 2 - 2;
  if (cached) pen.text(fitting(pen, blocks.owner[block], CELL - 9, 13, 650), middle, 18.5, { size: 13, align: "center", weight: 650, ink: textOf(phase) });
  else pen.dot(middle, 14, 2.4, "hairline-strong");
  pen.text(`${block}`, middle, 41, { size: 10.5, align: "center", ink: first ? "text" : "soft", weight: first ? 700 : 400 });
}

function ribbon(pen, groups, left, room, rest) {
  if (!rest) return;
  const long = Math.min(room, Math.max(rest * 3, 90));
  let x = left, told = false;
  for (const { owner, size, phase } of groups) {
    const wide = (long * size) / rest;
    pen.to.strokeStyle = pen.ink[owner ? inkOf(phase) : "hairline-strong"];
    pen.to.lineWidth = 1.3;
    pen.box(x + 0.7, 6, Math.max(1, wide - 1.4), 16, wide > 8 ? 3 : 1);
    pen.to.stroke();
    if (owner && wide > pen.wide(owner, 11, 650) + 6) pen.text(owner, x + wide / 2, 18, { size: 11, align: "center", weight: 650, ink: textOf(phase) });
    const words = owner ? `then ${num(size)} more of ${owner}’s` : `then ${num(size)} empty`;
    if (wide > 110) {
      pen.text(words, x + 2, 41, { size: 10.5 });
      told = true;
    }
    x += wide;
  }
  if (!told) pen.text(`then ${num(rest)} more`, left + 2, 41, { size: 10.5 });
}

/** The line beside the heading. */
export function queueNote(blocks, given) {
  const now = blocks.queue.length;
  const end = given ? `; ${num(now + given)} at the end of the step` : "";
  return now || given ? `${counted(now, blocks.unit)}, next out first${end}` : "";
}
