// Whose is each block: held, shared, cached with nobody holding it, or empty.
import { num } from "./run.mjs";

/** Every block's form and owner at a step, and its place in the free queue. A pool whose blocks are
    only counted has no such queue. */
export class Blocks {
  constructor(run, step, number) {
    const { board } = step;
    this.count = run.config.blocks;
    this.unit = run.unit;
    this.form = new Uint8Array(this.count + 1);
    this.holders = new Uint16Array(this.count + 1);
    this.owner = new Array(this.count + 1).fill(null);
    for (const lane of board.lanes.values()) {
      for (const block of lane.blocks) {
        this.holders[block] += 1;
        this.owner[block] ??= lane.id;
      }
    }
    this.totals = { held: 0, shared: 0, cached: 0, empty: 0 };
    for (let block = 1; block <= this.count; block++) {
      const form = this.holders[block] > 1 ? "shared" : this.holders[block] ? "held"
        : board.cached.has(block) ? "cached" : "empty";
      this.form[block] = FORM_NAMES.indexOf(form);
      this.totals[form] += 1;
      if (form === "cached") this.owner[block] = board.cached.get(block);
    }
    this.queue = run.config.counted ? [] : [...board.free];
    this.place = new Map(this.queue.map((block, at) => [block, at + 1]));
    const phases = new Map();
    this.phase = (block) => {
      const id = this.owner[block];
      if (!phases.has(id)) phases.set(id, run.phaseOf(id, number));
      return phases.get(id);
    };
    this.taken = takenIn(step);
  }

  nameOf(block) { return FORM_NAMES[this.form[block]]; }

  is(block, form) { return this.nameOf(block) === form; }

  /** Two blocks that belong to one territory have the same key. */
  key(block) { return this.form[block] === EMPTY ? "" : `${this.is(block, "cached") ? "c" : "h"}${this.owner[block]}`; }

  /** A block in words. */
  words(block) {
    const place = this.place.get(block), owner = this.owner[block];
    const what = this.is(block, "shared") ? `shared by ${this.holders[block]} requests`
      : this.is(block, "held") ? `held by ${owner}`
        : this.is(block, "cached") ? `was ${owner}’s, still readable` : "empty";
    const next = place === 1 ? "; next out of the free queue" : place ? `; number ${num(place)} in the free queue` : "";
    return what + next;
  }
}

const FORM_NAMES = ["empty", "held", "shared", "cached"];
const EMPTY = 0;

/** Blocks taken out of the free queue's head in a step: block, by whom, whose content it erased. */
function takenIn(step) {
  const taken = [], erased = new Map();
  let evictions = 0;
  for (const event of step.decided) {
    if (event.kind === "evict") {
      const owners = Object.entries(step.erased[evictions++]).flatMap(([id, count]) => Array(count).fill(id));
      const one = new Set(owners).size === 1;
      event.blocks.forEach((block) => erased.set(block, one ? owners[0] : null));
    }
    const from = (block) => erased.get(block) ?? null;
    if (event.kind === "allocate") for (const block of event.blocks) taken.push({ block, by: event.id, from: from(block) });
    if (event.kind === "grow") event.pages.forEach((block, i) => taken.push({ block, by: event.ids[i], from: from(block) }));
  }
  return taken;
}
