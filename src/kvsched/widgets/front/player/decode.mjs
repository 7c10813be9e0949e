// The stored run: events with their fields by name, block ids in full.

const BLOCK_FIELDS = new Set(["blocks", "hits", "front", "back", "invalid_blocks", "pages"]);
const ID_FIELDS = new Set(["id", "by"]);
const IDS_FIELDS = new Set(["ids", "recving", "sending", "victims", "kept", "aborted"]);
const SIDES = ["test", "need", "cached", "headroom", "free", "reserved", "have"];

/** The three parts of a step, each a list of events. */
export function eventsOf(trace, step) {
  const parts = trace.events[step];
  return [0, 1, 2].map((part) => (parts[part] ?? []).map((coded) => eventOf(trace, coded)));
}

/** A list in which null stands for “as before”, in full. */
export function filled(values) {
  let last = null;
  return values.map((value) => (last = value ?? last));
}

/** Runs of block ids, first id and length, in full; a negative length descends. */
export function blocksOf(runs) {
  const blocks = [];
  for (let at = 0; at < runs.length; at += 2) {
    const by = Math.sign(runs[at + 1]);
    for (let i = 0; i < Math.abs(runs[at + 1]); i++) blocks.push(runs[at] + by * i);
  }
  return blocks;
}

function eventOf(trace, [place, ...values]) {
  const [kind, ...fields] = trace.kinds[place];
  const event = { kind };
  fields.forEach((name, i) => { event[name] = fieldOf(trace, name, values[i]); });
  return event;
}

function fieldOf(trace, name, value) {
  if (BLOCK_FIELDS.has(name)) return blocksOf(value);
  if (ID_FIELDS.has(name)) return trace.ids[value] ?? null;
  if (IDS_FIELDS.has(name)) return value.map((id) => trace.ids[id]);
  if (name === "denial" && value) {
    const [id, ...sides] = value;
    return Object.fromEntries([["id", trace.ids[id]], ...SIDES.map((side, i) => [side, sides[i]])]);
  }
  return value;
}
