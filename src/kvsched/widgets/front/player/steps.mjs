// Every step of a run by its number: the board is moved forward from the nearest place kept.
import { Board } from "./board.mjs";
import { eventsOf } from "./decode.mjs";
import { SGLangBoard } from "./sglang.mjs";

const BOARDS = { vllm: Board, sglang: SGLangBoard, reserve: Board };

const APART = 32;

/** One step, split where the player looks: after schedule() and before update(). */
export class Step {
  constructor(trace, board, number) {
    this.number = number;
    this.board = board;
    [this.decided, this.mid, this.after] = eventsOf(trace, number);
    for (const event of this.decided) board.apply(event);
    this.scheduled = board.compute(number);
    this.sampling = board.sampling(this.scheduled);
    this.endedBefore = [...board.ended].sort();
    this.erased = board.erased;
    board.ended = [];
    board.erased = [];
  }

  /** The rest of the step: the board then stands at its end. */
  finish() {
    const unlike = new Map();
    for (const event of [...this.decided, ...this.mid, ...this.after]) {
      if (event.kind === "deliver") unlike.set(event.id, event.tokens);
    }
    for (const event of this.mid) this.board.apply(event);
    this.emitted = this.board.deliver(this.sampling, unlike);
    for (const event of this.after) this.board.apply(event);
  }

  of(...kinds) {
    return this.decided.filter((event) => kinds.includes(event.kind));
  }
}

/** The steps of a trace, in any order. */
export class Steps {
  constructor(trace) {
    this.trace = trace;
    this.kept = [new BOARDS[trace.engine](trace.config)];
    this.step = null;
  }
  get count() { return this.trace.events.length; }

  at(number) {
    const near = this.step && this.step.number <= number && number - this.step.number < APART;
    if (!near) this.step = null;
    while (this.step?.number !== number) this.step = this.following(number);
    return this.step;
  }

  /** One step further, or the step that stands at the last place kept before `number`. */
  following(number) {
    let next, board;
    if (this.step) {
      this.step.finish();
      next = this.step.number + 1;
      board = this.step.board;
      if (next % APART === 0) this.kept[next / APART] ??= board.copy();
    } else {
      let place = Math.floor(number / APART);
      while (!this.kept[place]) place -= 1;
      next = place * APART;
      board = this.kept[place].copy();
    }
    return new Step(this.trace, board, next);
  }
}
