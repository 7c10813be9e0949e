// The two kinds of waiting queue, as the engine keeps them: arrival order, and a binary heap.

/** First come, first served; `requeue` puts a request at the front. */
class ArrivalQueue {
  constructor(items = []) { this.items = [...items]; }
  add(lane) { this.items.push(lane); }
  requeue(lane) { this.items.unshift(lane); }
  pop() { return this.items.shift(); }
  discard(lane) { this.items = this.items.filter((one) => one !== lane); }
  inOrder() { return [...this.items]; }
  like(items) { return new ArrivalQueue(items); }
}

/** Ordered by (priority, arrival time, id) at the time of each push, as a heap is. */
class RankQueue {
  constructor(items = []) { this.items = [...items]; }
  add(lane) {
    this.items.push(lane);
    this.rise(this.items.length - 1);
  }
  requeue(lane) { this.add(lane); }
  pop() {
    const last = this.items.pop();
    if (!this.items.length) return last;
    const first = this.items[0];
    this.items[0] = last;
    this.sink(0);
    return first;
  }
  discard(lane) {
    this.items = this.items.filter((one) => one !== lane);
    for (let at = (this.items.length >> 1) - 1; at >= 0; at--) this.sink(at);
  }
  inOrder() {
    const copy = new RankQueue(this.items);
    return this.items.map(() => copy.pop());
  }
  like(items) { return new RankQueue(items); }
  rise(at) {
    const lane = this.items[at];
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(lane, this.items[parent])) break;
      this.items[at] = this.items[parent];
      at = parent;
    }
    this.items[at] = lane;
  }
  /** To the bottom along the smaller children, then up again: the order of equal steps matters. */
  sink(at) {
    const lane = this.items[at], end = this.items.length, top = at;
    let child = 2 * at + 1;
    while (child < end) {
      if (child + 1 < end && !before(this.items[child], this.items[child + 1])) child += 1;
      this.items[at] = this.items[child];
      at = child;
      child = 2 * at + 1;
    }
    while (at > top) {
      const parent = (at - 1) >> 1;
      if (!before(lane, this.items[parent])) break;
      this.items[at] = this.items[parent];
      at = parent;
    }
    this.items[at] = lane;
  }
}

export const queueFor = (policy) => (policy === "priority" ? new RankQueue() : new ArrivalQueue());

function before(one, other) {
  if (one.priority !== other.priority) return one.priority < other.priority;
  if (one.arrival_time !== other.arrival_time) return one.arrival_time < other.arrival_time;
  return one.id < other.id;
}
