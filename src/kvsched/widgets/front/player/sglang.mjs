// The state of an SGLang run, moved forward by its events: what kvsched.sglang.board and ledger are
// in Python. It knows no scheduling rule; it applies facts.

const NOBODY = queueOf([]);
const EMPTY = { rows: [], prefills: 0, middle: null };

export class SGLangBoard {
  constructor({ blocks, ratio }) {
    this.ratio = ratio;
    this.full = false;
    this.lanes = new Map();
    this.waiting = [];
    this.running = [];
    this.riding = [];
    this.chunked = null;
    this.denial = null;
    this.free = new Set(Array.from({ length: blocks }, (_, i) => i + 1));
    this.cached = new Map();
    this.rows = [];
    this.last = EMPTY;
    this.passes = new Map();
    this.erased = [];
    this.ended = [];
  }

  get queues() { return { waiting: queueOf(this.waiting), skipped: NOBODY }; }

  apply(event) { APPLY[event.kind](this, event); }

  /** End of schedule(): the pass of this step, its rows now computed. Who runs decodes a token. */
  compute(step) {
    const prefills = this.rows.length, decodes = prefills ? this.riding : this.running;
    for (const { id, num_computed_tokens: at } of decodes) this.rows.push([id, at, at + 1]);
    for (const [id, , end] of this.rows) this.lanes.get(id).num_computed_tokens = end;
    this.last = { rows: this.rows, prefills, middle: prefills ? this.chunked : null };
    this.passes.set(step, this.last);
    this.rows = [];
    this.riding = [];
    return new Map(this.last.rows.map(([id, start, end]) => [id, end - start]));
  }

  /** Tokens come back with a `landed` event, maybe of an earlier pass. */
  sampling() { return new Map(); }

  deliver() {
    this.emitted = new Map();
    return this.emitted;
  }

  /** A copy that goes its own way. */
  copy() {
    const other = Object.assign(Object.create(SGLangBoard.prototype), this);
    other.lanes = new Map([...this.lanes].map(([id, lane]) => [id, { ...lane, blocks: [...lane.blocks] }]));
    for (const name of ["waiting", "running", "riding"]) other[name] = this[name].map(({ id }) => other.lanes.get(id));
    for (const name of ["cached", "passes"]) other[name] = new Map(this[name]);
    other.free = new Set(this.free);
    for (const name of ["rows", "erased"]) other[name] = [...this[name]];
    return other;
  }
}

function queueOf(items) {
  return { items, inOrder: () => [...items] };
}

function admit(board, { id, computed, tokens }) {
  const lane = board.lanes.get(id);
  board.waiting = board.waiting.filter((one) => one !== lane);
  lane.retracted = false;
  board.rows.push([id, computed, computed + tokens]);
}

const lanesOf = (board, ids) => ids.map((id) => board.lanes.get(id));
const giveBack = (board, pages) => { for (const page of pages) board.free.add(page); };

const APPLY = {
  arrive(board, { id, priority, num_prompt_tokens }) {
    const lane = { id, priority, num_prompt_tokens, num_tokens: num_prompt_tokens, num_computed_tokens: 0,
      num_preemptions: 0, retracted: false, over: false, blocks: [] };
    board.lanes.set(id, lane);
    board.waiting.push(lane);
  },
  admit,
  resume: admit,
  chunk(board, { id, tokens }) {
    const at = board.lanes.get(id).num_computed_tokens;
    board.rows.push([id, at, at + tokens]);
  },
  sorted(board, { ids }) { board.waiting = lanesOf(board, ids); },
  chunked(board, { id }) { board.chunked = id; },
  merge(board, { ids }) { board.running = [...board.running, ...lanesOf(board, ids)]; },
  drop(board, { ids }) { board.running = board.running.filter(({ id }) => !ids.includes(id)); },
  ride(board, { ids }) {
    board.riding = lanesOf(board, ids);
    board.running = [];
  },
  preempt(board, { id, preemptions }) {
    const lane = board.lanes.get(id);
    Object.assign(lane, { num_computed_tokens: 0, retracted: true, num_preemptions: preemptions });
    board.running = board.running.filter((one) => one !== lane);
  },
  retract(board, { kept }) { board.running = lanesOf(board, kept); },
  requeue(board, { ids, at }) { board.waiting = board.waiting.toSpliced(at, 0, ...lanesOf(board, ids)); },
  landed(board, { step }) {
    const { rows, middle } = board.passes.get(step);
    board.passes.delete(step);
    for (const [id] of rows) {
      const lane = board.lanes.get(id);
      if (id === middle || lane.over || lane.retracted) continue;
      lane.num_tokens += 1;
      board.emitted.set(id, 1);
    }
  },
  finish(board, { id }) {
    const lane = board.lanes.get(id);
    lane.over = true;
    board.waiting = board.waiting.filter((one) => one !== lane);
  },
  full(board, { full }) { board.full = full; },
  ratio(board, { value }) { board.ratio = value; },
  deny(board, { denial }) { board.denial = denial; },
  undeny(board) { board.denial = null; },
  allocate(board, { id, hits, blocks }) {
    for (const page of blocks) board.free.delete(page);
    board.lanes.get(id).blocks.push(...hits, ...blocks);
  },
  grow(board, { ids, pages }) {
    ids.forEach((id, i) => {
      board.free.delete(pages[i]);
      board.lanes.get(id).blocks.push(pages[i]);
    });
  },
  adopt(board, { id, first, pages }) { board.lanes.get(id).blocks.splice(first, pages.length, ...pages); },
  cache(board, { id, blocks }) { for (const page of blocks) board.cached.set(page, id); },
  evict(board, { blocks }) {
    const owners = {};
    for (const page of blocks) {
      const owner = board.cached.get(page);
      owners[owner] = (owners[owner] ?? 0) + 1;
      board.cached.delete(page);
    }
    board.erased.push(owners);
    giveBack(board, blocks);
  },
  free(board, { back }) { giveBack(board, back); },
  leave(board, { id }) { board.lanes.get(id).blocks = []; },
};
