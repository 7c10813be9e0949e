// The state of a run, moved forward by its events: what kvsched.board is in Python.
// It knows no scheduling rule; it applies facts.
import { queueFor } from "./queues.mjs";

const RUNNING = "RUNNING";

export class Board {
  constructor({ blocks, policy }) {
    this.policy = policy;
    this.lanes = new Map();
    this.queues = { waiting: queueFor(policy), skipped: queueFor(policy) };
    this.held = queueFor(policy);
    this.running = [];
    this.free = new Set(Array.from({ length: blocks }, (_, i) => i + 1));
    this.cached = new Map();
    this.prefilling = new Set();
    this.reported = new Set();
    this.denial = null;
    this.ended = [];
    this.erased = [];
    this.idle = new Set();
    this.chunks = new Map();
  }

  apply(event) { APPLY[event.kind](this, event); }

  /** End of schedule(): who computes advances; a running request with one token left computes it. */
  compute() {
    const scheduled = new Map();
    for (const lane of this.running) {
      const left = lane.num_tokens - lane.num_computed_tokens;
      const tokens = this.chunks.get(lane.id) ?? (left === 1 ? 1 : 0);
      if (!tokens || this.idle.has(lane.id)) continue;
      lane.num_computed_tokens += tokens;
      scheduled.set(lane.id, tokens);
      if (lane.num_computed_tokens >= lane.num_tokens) this.prefilling.delete(lane.id);
    }
    this.chunks = new Map();
    this.idle = new Set();
    for (const lane of this.held.inOrder()) {
      this.queues.skipped.requeue(lane);
      lane.queue = "skipped";
    }
    this.held = queueFor(this.policy);
    return scheduled;
  }

  /** Tokens that will come back: one for whoever computed its last. */
  sampling(scheduled) {
    const lanes = [...scheduled.keys()].map((id) => this.lanes.get(id));
    return new Map(lanes.filter((lane) => lane.num_computed_tokens === lane.num_tokens).map((lane) => [lane.id, 1]));
  }

  /** Append what was sampled, unless the request is gone or `unlike` says otherwise. */
  deliver(sampling, unlike) {
    const emitted = new Map();
    for (const [id, expected] of sampling) {
      const tokens = unlike.get(id) ?? expected, lane = this.lanes.get(id);
      if (lane?.status !== RUNNING || !tokens) continue;
      lane.num_tokens += tokens;
      emitted.set(id, tokens);
    }
    return emitted;
  }

  /** Blocks held by requests that do not run. */
  holders() {
    const still = [...this.lanes.values()].filter((lane) => lane.blocks.length && lane.status !== RUNNING);
    return new Map(still.map((lane) => [lane.id, lane.blocks.length]));
  }

  take(id) {
    return this.queues[this.lanes.get(id).queue].pop();
  }

  /** A copy that goes its own way. */
  copy() {
    const other = Object.assign(Object.create(Board.prototype), this);
    other.lanes = new Map([...this.lanes].map(([id, lane]) => [id, { ...lane, blocks: [...lane.blocks] }]));
    const mine = (lanes) => lanes.map((lane) => other.lanes.get(lane.id));
    other.queues = Object.fromEntries(
      Object.entries(this.queues).map(([name, queue]) => [name, queue.like(mine(queue.items))]));
    other.held = queueFor(this.policy);
    other.running = mine(this.running);
    for (const name of ["free", "prefilling", "reported", "idle"]) other[name] = new Set(this[name]);
    for (const name of ["cached", "chunks"]) other[name] = new Map(this[name]);
    for (const name of ["ended", "erased"]) other[name] = [...this[name]];
    return other;
  }
}

function admit(board, event) {
  const lane = board.take(event.id);
  lane.status = RUNNING;
  lane.num_computed_tokens = event.computed;
  board.running.push(lane);
  board.reported.delete(event.id);
  board.chunks.set(event.id, event.tokens);
  if (event.computed + event.tokens < lane.num_tokens) board.prefilling.add(event.id);
}

function end(board, id, status, held) {
  const lane = board.lanes.get(id);
  if (lane.status === RUNNING) leave(board, lane);
  else for (const queue of Object.values(board.queues)) queue.discard(lane);
  lane.status = status;
  board.ended.push(id);
  board.prefilling.delete(id);
  board.reported.delete(id);
  if (!held) board.lanes.delete(id);
}

function leave(board, lane) {
  board.running = board.running.filter((one) => one !== lane);
}

function enqueue(board, lane, queue) {
  lane.queue = queue;
  board.queues[queue].add(lane);
}

const APPLY = {
  arrive(board, event) {
    const { id, priority, arrival_time, status, queue, num_prompt_tokens: num_tokens } = event;
    const lane = { id, priority, arrival_time, status, queue, num_tokens, num_computed_tokens: 0,
      num_preemptions: 0, drop_stale_output: false, blocks: [] };
    board.lanes.set(id, lane);
    enqueue(board, lane, queue);
  },
  admit,
  resume: admit,
  chunk(board, event) { board.chunks.set(event.id, event.tokens); },
  idle(board, event) { board.idle = new Set(event.ids); },
  allocate(board, event) {
    const lane = board.lanes.get(event.id);
    for (const block of [...event.hits, ...event.blocks]) {
      board.free.delete(block);
      lane.blocks.push(block);
    }
  },
  evict(board, event) {
    const owners = {};
    for (const block of event.blocks) {
      const owner = board.cached.get(block);
      owners[owner] = (owners[owner] ?? 0) + 1;
      board.cached.delete(block);
    }
    board.erased.push(owners);
  },
  cache(board, event) { for (const block of event.blocks) board.cached.set(block, event.id); },
  uncache(board, event) { for (const block of event.blocks) board.cached.delete(block); },
  free(board, event) {
    const lane = board.lanes.get(event.id);
    if (lane) lane.blocks = [];
    for (const block of event.back) board.free.add(block);
    if (event.front.length) board.free = new Set([...event.front, ...board.free]);
  },
  deny(board, event) { board.denial = event.denial; },
  undeny(board) { board.denial = null; },
  preempt(board, event) {
    const lane = board.lanes.get(event.id);
    leave(board, lane);
    lane.status = "PREEMPTED";
    lane.num_computed_tokens = 0;
    lane.num_preemptions = event.preemptions;
    lane.drop_stale_output = event.denial === null;
    lane.blocks = [];
    lane.queue = "waiting";
    board.queues.waiting.requeue(lane);
    board.chunks.delete(event.id);
    board.prefilling.delete(event.id);
  },
  finish(board, event) { end(board, event.id, event.status, event.held); },
  abort(board, event) { if (event.status !== null) end(board, event.id, "FINISHED_ABORTED", event.held); },
  forget(board, event) { board.lanes.delete(event.id); },
  promote(board, event) { board.lanes.get(event.id).status = event.status; },
  setaside(board, event) { board.held.requeue(board.take(event.id)); },
  enqueue(board, event) { enqueue(board, board.lanes.get(event.id), event.queue); },
  load(board, event) {
    if (!event.asynchronous) return;
    const lane = board.take(event.id);
    lane.status = "WAITING_FOR_REMOTE_KVS";
    lane.num_computed_tokens = event.computed;
    board.prefilling.add(lane.id);
    board.held.requeue(lane);
  },
  report(board, event) { for (const id of event.recving) board.reported.add(id); },
  progress(board, event) { board.lanes.get(event.id).num_computed_tokens = event.num_computed_tokens; },
  chunkend(board, event) {
    const lane = board.lanes.get(event.id);
    leave(board, lane);
    lane.status = event.status;
  },
  continue(board, event) {
    const lane = board.lanes.get(event.id);
    Object.assign(lane, { status: "WAITING", num_tokens: event.num_tokens, arrival_time: event.arrival_time });
  },
  deliver() {},
};
