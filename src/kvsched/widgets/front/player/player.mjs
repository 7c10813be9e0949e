// The step player: a run in lanes, the pool as a map, queues and tests, and the sentence that says
// why. Everything is drawn anew for a step, from the run's log.
import { el } from "../dom.mjs";
import { Blocks } from "./blocks.mjs";
import { queueRows } from "./chips.mjs";
import { drawQueue, queueNote } from "./freequeue.mjs";
import { drawLanes, laneLayout } from "./lanes.mjs";
import { legend } from "./legend.mjs";
import { drawMap, mapLayout } from "./map.mjs";
import { lookOf } from "./pen.mjs";
import { countsOf, promisesOf, takenWords } from "./poolwords.mjs";
import { counted, num, Run } from "./run.mjs";
import { scrubber } from "./scrub.mjs";
import { longestOf, sentence } from "./sentence.mjs";
import { testPanel } from "./tests.mjs";
import { transport } from "./transport.mjs";

/* Beside what every renderer's host has, one of several players on one playhead is given
   host.time  the transport that moves them all, shown elsewhere
   host.mark  a step that the slider marks, or null */
export function player(host) {
  let run, trace, look, width = 0, sizes = {}, lanes = null, layout = null, blocks = null;
  const at = () => ({ ...host.selection, step: Math.min(host.selection.step, run.last) });
  const chosen = () => (run.byId.has(host.selection.request) ? host.selection.request : null);
  const time = host.time ?? transport({
    now: () => at().step,
    last: () => run.last,
    stop: (by) => run.stop(at().step, by),
    go: (step, quiet) => host.select({ step }, quiet),
    hide: () => host.select({ hide: !host.selection.hide }),
  });
  const scrub = scrubber((step) => time.to(step));
  const chips = queueRows((id) => pick(id));
  const tests = testPanel();
  const parts = pageOf({ scrub, chips, tests, alone: host.time ? [] : [time.box], key: host.time ? [] : [legend()] });

  const pick = (id) => host.select({ request: chosen() === id ? "" : id });
  parts.lanes.addEventListener("click", ({ offsetY }) => {
    const row = lanes.rows.find(({ y }, i) => offsetY >= y && offsetY < (lanes.rows[i + 1]?.y ?? lanes.height));
    if (row) pick(row.lane.id);
  });
  parts.map.addEventListener("pointermove", ({ offsetX, offsetY }) => note(layout.hit(offsetX, offsetY) || host.selection.block));
  parts.map.addEventListener("pointerleave", () => note(host.selection.block));
  parts.map.addEventListener("click", ({ offsetX, offsetY }) => {
    const block = layout.hit(offsetX, offsetY);
    host.select({ block: block === host.selection.block ? 0 : block });
  });

  const resized = new ResizeObserver(() => {
    if (!run || host.body.clientWidth === width) return;
    reserve();
    draw();
  });
  resized.observe(host.body);
  const themed = new MutationObserver(() => { look = null; draw(); });
  for (const root of [document.documentElement, document.body]) themed.observe(root, { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "class"] });

  function reserve() {
    width = host.body.clientWidth;
    sizes = { lanes: parts.lanes.clientWidth, map: parts.map.clientWidth };
    host.reserve(longestOf(run.says, width));
  }
  const unitName = () => run.unit[0].toUpperCase() + run.unit.slice(1);
  function note(block) {
    parts.note.replaceChildren(...(block && block <= blocks.count
      ? [`${unitName()} `, el("b", {}, `${block}`), `: ${blocks.words(block)}.`] : takenWords(blocks)));
  }
  function draw() {
    if (!run || !width) return;
    const began = performance.now();
    look ??= lookOf(host.body);
    const selected = chosen(), { step: number, hide, block } = at(), step = run.steps.at(number);
    lanes = laneLayout(run, sizes.lanes, selected, number);
    drawLanes(parts.lanes, look, run, lanes, { step: number, selected, hide, board: step.board });
    scrub.draw(look, run, lanes, { step: number, hide, mark: host.mark ?? null });
    blocks = new Blocks(run, step, number);
    layout = mapLayout(blocks.count, sizes.map);
    drawMap(parts.map, look, layout, blocks, { selected, block });
    drawQueue(parts.queue, look, sizes.map, blocks, selected);
    tell(number, step, selected);
    note(block);
    time.update(hide);
    performance.measure("kv-step", { start: began, end: performance.now() });
  }
  function tell(number, step, selected) {
    parts.number.textContent = num(number);
    parts.of.textContent = `of ${num(run.last)}`;
    host.say(...sentence(run.says[number], width));
    const panel = run.panels[number], given = step.after.reduce((sum, event) => (
      event.kind === "free" ? sum + event.front.length + event.back.length : sum), 0);
    chips.draw(run, step, { number, selected, panel });
    tests.draw(panel, step.board.queues.waiting.items.length);
    parts.counts.replaceChildren(...(panel.pool ? promisesOf(panel.pool) : countsOf(blocks)));
    parts.size.textContent = `${counted(blocks.count, run.unit)} of ${counted(run.config.size, "token")}`;
    parts.out.textContent = queueNote(blocks, given);
    const { map } = parts, cursor = host.selection.block || 1;
    map.setAttribute("aria-valuemax", blocks.count);
    map.setAttribute("aria-valuenow", cursor);
    map.setAttribute("aria-valuetext", host.selection.block ? `${run.unit} ${cursor}: ${blocks.words(cursor)}` : `no ${run.unit} chosen`);
  }
  /** Among the requests: none, the first, … the last. */
  function other(by) {
    const ids = run.lanes.map(({ id }) => id), here = ids.indexOf(chosen());
    const next = here < 0 ? (by > 0 ? 0 : ids.length - 1) : Math.max(0, Math.min(ids.length - 1, here + by));
    host.select({ request: ids[next] });
  }
  function overBlocks(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -layout.cols, ArrowDown: layout.cols }[event.key];
    const { block } = host.selection;
    if (!by) return false;
    host.select({ block: block ? Math.max(1, Math.min(blocks.count, block + by)) : blocks.queue[0] ?? 1 });
    return true;
  }
  const KEYS = {
    ArrowLeft: (event) => time.by(event.shiftKey ? -10 : -1),
    ArrowRight: (event) => time.by(event.shiftKey ? 10 : 1),
    ArrowUp: () => other(-1),
    ArrowDown: () => other(1),
    "[": () => time.jump(-1),
    "]": () => time.jump(1),
    Home: () => time.to(0),
    End: () => time.to(Infinity),
    Escape: () => host.select({ request: "", block: 0 }),
    f: () => host.select({ hide: !host.selection.hide }),
  };
  return {
    update() {
      if (trace !== host.data.trace) {
        trace = host.data.trace;
        run = new Run(trace);
        parts.now.append(host.said);
        parts.title.textContent = `KV ${run.unit}s`;
        parts.map.setAttribute("aria-label", run.unit);
        parts.waiting.hidden = Boolean(run.config.counted);
        host.body.replaceChildren(parts.page);
        reserve();
      }
      draw();
    },
    key(event) {
      if (event.target === parts.map && overBlocks(event)) return true;
      if (event.key === " " && !event.target.closest("button, summary")) {
        time.toggle();
        return true;
      }
      const does = KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
      does?.(event);
      return Boolean(does);
    },
    end() {
      time.end();
      resized.disconnect();
      themed.disconnect();
    },
  };
}

/** The page's elements, those that are filled by name. Named before they are drawn: a notebook
    draws nothing that is out of sight. */
function pageOf({ scrub, chips, tests, alone, key }) {
  const parts = {
    number: el("b"),
    of: el("i"),
    lanes: el("canvas", { class: "kv-lanes", role: "img", "aria-label": "requests over time" }),
    map: el("canvas", { class: "kv-map", role: "slider", tabindex: 0, "aria-valuemin": 1, "aria-valuenow": 1 }),
    queue: el("canvas", { class: "kv-free", role: "img", "aria-label": "free queue" }),
    note: el("p", { class: "kv-blockline" }),
    counts: el("p", { class: "kv-counts" }),
    title: el("b"),
    size: el("span"),
    out: el("span"),
  };
  parts.now = el("div", { class: "kv-now" },
    el("p", { class: "kv-number" }, el("small", {}, "step "), parts.number, " ", parts.of));
  const head = (words, beside) => el("p", { class: "kv-head" }, words, " ", beside);
  const bold = (words) => el("b", {}, words);
  parts.waiting = el("div", {}, head(bold("Free queue"), parts.out), parts.queue);
  parts.page = el("div", { class: "kv-player" },
    parts.now, parts.lanes, scrub.box, ...alone,
    el("div", { class: "kv-below" },
      el("div", { class: "kv-pool", role: "group", "aria-label": "KV blocks" },
        head(parts.title, parts.size), parts.counts, parts.map, parts.note, parts.waiting),
      el("div", { class: "kv-side" },
        el("div", { role: "group", "aria-label": "Queues" }, head(bold("Queues"), el("span", {}, "head first")), chips.box), tests.box)),
    ...key);
  return parts;
}
