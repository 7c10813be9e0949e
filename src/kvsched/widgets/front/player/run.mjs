// A stored run, ready to be looked at: lanes by step, sentences, tests, places worth a stop.
import { filled } from "./decode.mjs";
import { Steps } from "./steps.mjs";

/** Everything the player's parts read, of one trace. */
export class Run {
  constructor(trace) {
    this.trace = trace;
    this.config = trace.config;
    this.unit = trace.config.unit;
    this.steps = new Steps(trace);
    this.count = this.steps.count;
    this.last = this.count - 1;
    this.says = filled(trace.says);
    this.panels = filled(trace.panels);
    this.stops = trace.stops;
    this.lanes = Object.entries(trace.lanes).map(([id, lane]) => new RunLane(id, lane, trace.phases));
    this.byId = new Map(this.lanes.map((lane) => [lane.id, lane]));
    this.tallest = Math.max(1, ...this.lanes.map((lane) => lane.tallest));
  }

  /** The phase that colours what a request holds or held, at a step. */
  phaseOf(id, step) { return this.byId.get(id)?.at(step)?.phase ?? "done"; }

  /** The next place worth a stop in a direction, or null. */
  stop(from, by) {
    const ahead = by > 0 ? this.stops.find((step) => step > from) : this.stops.findLast((step) => step < from);
    return ahead ?? null;
  }
}

class RunLane {
  constructor(id, { segments, marks, sent }, phases) {
    this.id = id;
    this.marks = marks.map(([step, kind, ...rest]) => ({ step, kind, rest }));
    this.sent = sent;
    this.segments = segments.map(([phase, from, steps, height = 0, rise = 0, base = 0, found = 0]) => (
      { phase: phases[phase], from, to: from + steps, height, rise, base, found }));
    this.tallest = Math.max(0, ...this.segments.map((s) => Math.max(s.height + s.rise * (s.to - s.from - 1), s.found)));
    this.end = this.marks.find(({ kind }) => kind === "end");
  }

  /** What is drawn at a step, or null where there is nothing. */
  at(step) {
    const segment = this.segments.findLast(({ from }) => from <= step);
    if (!segment || segment.to <= step) return null;
    return { ...segment, height: segment.height + segment.rise * (step - segment.from) };
  }

  /** How often it was thrown out, up to a step. */
  losses(step) { return this.marks.filter((mark) => mark.kind === "lost" && mark.step <= step).length; }
}

const thousands = new Intl.NumberFormat("en-US");

/** A number as the player writes it, and one with its noun. */
export const num = (value) => thousands.format(value);
export const counted = (value, noun) => `${num(value)} ${noun}${value === 1 ? "" : "s"}`;

const NAMES = { "blocked-outside": "blocked outside", idle: "running, not scheduled" };

/** A phase in words. */
export const phaseName = (phase) => NAMES[phase] ?? phase;
