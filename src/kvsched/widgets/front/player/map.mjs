// The pool: one cell a block, in the order of their numbers, so that blocks taken at once are one
// territory.
import { fitting, penOn } from "./pen.mjs";
import { num } from "./run.mjs";

const MOST_RINGED = 24;

/** Columns and cells by the number of blocks and the room there is. */
export function mapLayout(count, width) {
  const phone = width < 420, dense = count > 400;
  const margin = dense ? (phone ? 34 : 92) : 0;
  const cols = dense ? (phone ? 48 : 64) : count > 100 ? (phone ? 16 : 25) : phone ? (count > 48 ? 10 : 8) : count > 24 ? 12 : 8;
  const most = dense ? 10.4 : count > 100 ? 24 : 46;
  const cell = Math.min(most, Math.floor((2 * (width - margin - 4)) / cols) / 2), rows = Math.ceil(count / cols);
  return { count, width, margin, cols, cell, rows, dense, phone, gap: cell > 12 ? 3 : cell > 6 ? 1 : 0.6,
    height: Math.ceil(rows * cell) + (dense ? 16 : 5),
    at(block) { return [margin + 2 + ((block - 1) % cols) * cell, 2 + Math.floor((block - 1) / cols) * cell]; },
    hit(x, y) {
      const col = Math.floor((x - margin - 2) / cell), row = Math.floor((y - 2) / cell), block = row * cols + col + 1;
      return col >= 0 && col < cols && block >= 1 && block <= count ? block : 0;
    } };
}

export function drawMap(canvas, look, layout, blocks, { selected, block: chosen }) {
  const pen = penOn(canvas, layout.width, layout.height, look);
  const faded = (block) => Boolean(selected) && blocks.owner[block] !== selected && !blocks.is(block, "empty");
  for (const { form, phase, pale, members } of alike(blocks, faded)) {
    pen.to.globalAlpha = pale ? 0.3 : 1;
    CELLS[form](pen, layout, members, phase);
  }
  pen.to.globalAlpha = 1;
  if (layout.cell >= 18) for (let block = 1; block <= blocks.count; block++) caption(pen, layout, blocks, block, faded(block));
  if (layout.dense) {
    borders(pen, layout, blocks);
    territories(pen, layout, blocks, selected);
  }
  if (blocks.taken.length <= MOST_RINGED) for (const { block } of blocks.taken) ring(pen, layout, block, 1.6);
  if (layout.dense && blocks.queue.length) nextOut(pen, layout, blocks.queue[0]);
  if (chosen) ring(pen, layout, chosen, 3);
}

/** Blocks that are drawn the same, so that each kind is one path. */
function alike(blocks, faded) {
  const groups = new Map();
  for (let block = 1; block <= blocks.count; block++) {
    const form = blocks.nameOf(block), phase = blocks.phase(block), pale = faded(block), key = `${form} ${phase} ${pale}`;
    if (!groups.has(key)) groups.set(key, { form, phase, pale, members: [] });
    groups.get(key).members.push(block);
  }
  return groups.values();
}

/** The outline of cells, each `inset` from its edge; small ones have no round corners. */
function outline({ to }, { cell: side, gap, at }, members, inset, round) {
  const w = side - gap - 2 * inset;
  to.beginPath();
  for (const block of members) {
    const [x, y] = at(block);
    if (side >= 12) to.roundRect(x + inset, y + inset, w, w, round);
    else to.rect(x + inset, y + inset, w, w);
  }
}

function held(pen, layout, members, phase) {
  outline(pen, layout, members, 0, 4);
  pen.to.fillStyle = pen.ink[phase];
  pen.to.fill();
}

const CELLS = {
  held,
  shared(pen, layout, members, phase) {
    const big = layout.cell >= 18;
    held(pen, layout, members, phase);
    outline(pen, layout, members, big ? 4 : (layout.cell - layout.gap) * 0.24, 2.5);
    pen.to.strokeStyle = pen.ink.paper;
    pen.to.lineWidth = big ? 1.8 : 1.1;
    pen.to.stroke();
  },
  cached(pen, layout, members, phase) {
    const line = layout.cell >= 18 ? 1.8 : layout.cell > 6 ? 1.15 : 0.9;
    outline(pen, layout, members, line / 2, 3.5);
    pen.to.strokeStyle = pen.ink[phase === "done" ? "done-ring" : phase];
    pen.to.lineWidth = line;
    pen.to.stroke();
  },
  empty(pen, { cell: side, gap, at }, members) {
    const { to } = pen, radius = side >= 18 ? 3 : Math.max(0.9, side * 0.16), middle = (side - gap) / 2;
    to.beginPath();
    for (const block of members) {
      const [x, y] = at(block);
      to.moveTo(x + middle + radius, y + middle);
      to.arc(x + middle, y + middle, radius, 0, 2 * Math.PI);
    }
    to.fillStyle = pen.ink["hairline-strong"];
    to.fill();
  },
};

const ON = { decode: "on-decode", idle: "on-decode", draining: "on-decode" };

/** The owner in a cell, and its place in the free queue. */
function caption(pen, { cell: side, gap, at }, blocks, block, faded) {
  const [x, y] = at(block), w = side - gap, roomy = side > 28, place = blocks.place.get(block);
  const phase = blocks.phase(block), cached = blocks.is(block, "cached");
  const middle = { align: "center", base: "middle" };
  if (!blocks.is(block, "empty")) {
    const size = roomy ? 13 : 10, held = ON[phase] ?? "on-prefill";
    const ink = faded ? "soft" : cached ? (phase === "done" ? "soft" : phase) : held;
    const words = blocks.is(block, "shared") ? `×${blocks.holders[block]}` : blocks.owner[block];
    pen.text(fitting(pen, words, w - 4, size, 600), x + w / 2, y + w / 2 + (place && roomy ? -4 : 0.5), { ...middle, size, weight: 600, ink });
  }
  if (place && roomy) pen.text(`${place}.`, x + w / 2, y + w / 2 + (cached ? 10 : 13), { ...middle, size: 9.5 });
}

/** Lines where owner or form changes: ink on light paper, a wide gap on dark. */
function borders(pen, { cols, cell: side, gap, at }, blocks) {
  const dark = document.documentElement.dataset.theme === "dark", { to } = pen, half = gap / 2;
  to.beginPath();
  for (let block = 2; block <= blocks.count; block++) {
    const [x, y] = at(block), key = blocks.key(block);
    if ((block - 1) % cols && key !== blocks.key(block - 1)) {
      to.moveTo(x - half, y - half);
      to.lineTo(x - half, y + side - half);
    }
    if (block > cols && key !== blocks.key(block - cols)) {
      to.moveTo(x - half, y - half);
      to.lineTo(x + side - half, y - half);
    }
  }
  to.strokeStyle = dark ? pen.ink.paper : pen.ink.text;
  to.lineWidth = dark ? 3 : 1.2;
  to.globalAlpha = dark ? 1 : 0.8;
  to.stroke();
  to.globalAlpha = 1;
}

/** Large territories by letter in the margin; strays of the last row by number and owner. */
function territories(pen, layout, blocks, selected) {
  const { cols, cell: side, rows, count, at } = layout, strays = [];
  for (let first = 1; first <= count;) {
    let last = first;
    while (last < count && blocks.key(last + 1) === blocks.key(first)) last += 1;
    if (!blocks.is(first, "empty")) {
      if (last - first + 1 >= cols * 2) territory(pen, layout, blocks, first, last, selected);
      else if (last - first < 4 && !blocks.is(first, "cached")) for (let one = first; one <= last; one++) strays.push(one);
    }
    first = last + 1;
  }
  if (!strays.length || count - (rows - 1) * cols >= cols / 2) return;
  const words = strays.slice(-5).map((block) => `${block} ${blocks.owner[block]}`).join("   ");
  pen.text(words, layout.margin + cols * side, at(count)[1] + side / 2 + 2, { size: 11, align: "right", base: "middle" });
}

function territory(pen, { margin, at, cols, cell: side, phone }, blocks, first, last, selected) {
  const top = at(first + ((cols - ((first - 1) % cols)) % cols))[1], bottom = at(last)[1] + side;
  const middle = (top + bottom) / 2, cached = blocks.is(first, "cached"), phase = blocks.phase(first);
  const own = blocks.owner[first], ink = cached ? (phase === "done" ? "soft" : phase) : "text";
  const weight = own === selected ? 750 : 600, size = phone ? 19 : 24;
  const name = fitting(pen, own, margin - 10, size, weight), lines = [`${num(last - first + 1)}${phone ? "" : " blocks"}`];
  if (cached && !phone) lines.push("still readable");
  const high = size + lines.length * 14, from = middle - high / 2;
  if (bottom - top < high) return pen.text(fitting(pen, own, margin - 10, 13, weight), 0, middle, { size: 13, weight, ink, base: "middle" });
  pen.text(name, 0, from + size * 0.84, { size, weight, ink });
  lines.forEach((line, row) => pen.text(line, 0, from + size + 10 + row * 14, { size: phone ? 11 : 12, ink: cached ? ink : "soft" }));
  return undefined;
}

function ring(pen, { at, cell: side, gap }, block, width) {
  const [x, y] = at(block), w = side - gap;
  pen.box(x - 1, y - 1, w + 2, w + 2, side >= 18 ? 5 : 2);
  pen.to.strokeStyle = pen.ink.text;
  pen.to.lineWidth = side >= 18 ? width + 0.4 : width;
  pen.to.stroke();
}

function nextOut(pen, { at, cell: side, gap }, block) {
  const [x, y] = at(block), middle = (side - gap) / 2;
  pen.dot(x + middle, y + middle, side * 0.26, "text");
}
