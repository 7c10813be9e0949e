// The tests as bars: all limits are one vertical line, and what crosses it is the refusal.
import { el } from "../dom.mjs";
import { counted, num } from "./run.mjs";

const LIMIT = 78; // per cent of the track

const TITLE = { retraction: "Do the next tokens fit?", growth: "Growth before admission", denied: "May the next one come in?", admitted: "May the next one come in?", idle: "What this step used" };
const NAME = { tokens: "Token budget", slots: "Slots", whole: "Whole sequence", chunk: "Next chunk", watermark: "Watermark", blocks: "Pool",
  memory: "Memory, outputs to come included", left: "Tokens left of the pass",
  turn: "One at a time", credits: "Credits", drains: "Credits and drains", pages: "Pages", rows: "Rows" };
const REFUSED_BY = { tokens: "the token budget", slots: "the slot test", whole: "the whole-sequence test", chunk: "the next-chunk test", watermark: "the watermark",
  memory: "the memory test", left: "the token test", turn: "the serial policy", credits: "the credits", drains: "draining pages" };
const UNIT = { tokens: "token", slots: "slot", memory: "token", left: "token", turn: "place" };

/** The panel; on a phone it shows the binding test and a button for the rest. */
export function testPanel() {
  const title = el("p", { class: "kv-head" }), lead = el("p", { class: "kv-lead" }), rows = el("div");
  const limit = el("p", { class: "kv-limit", "aria-hidden": "true" }, el("span", {}, "limit"));
  const box = el("div", { class: "kv-tests", role: "group", "aria-label": "Tests" }, title, lead, limit, rows);
  const more = el("button", { type: "button", class: "kv-more", "aria-expanded": "false", onclick: () => {
    const open = box.classList.toggle("is-open");
    more.setAttribute("aria-expanded", open);
    more.textContent = open ? "show only the binding test" : "show all tests";
  } }, "show all tests");
  box.append(more);
  let shown = null;
  return {
    box,
    draw(panel, waiting) {
      if (panel === shown) return;
      shown = panel;
      title.textContent = TITLE[panel.kind];
      lead.replaceChildren(...leadOf(panel, waiting));
      const binds = panel.rows.some(([, state]) => state === "binds");
      rows.replaceChildren(...panel.rows.map((row) => rowOf(row, panel, binds)));
    },
  };
}

function leadOf(panel, waiting) {
  const bold = (words) => el("b", {}, words);
  if (panel.kind === "growth") return ["Running requests grow first. One that cannot evicts another, and admission is closed for the rest of this step."];
  if (panel.kind === "retraction") return ["They do not: requests are thrown out, the least kept first, until the others’ tokens fit."];
  if (panel.kind === "idle") return [!waiting ? "No one is waiting." : panel.full ? "batch_is_full is set: nobody is tried." : "Nobody is tried in this step."];
  if (panel.kind === "admitted") {
    return [bold(panel.id), " passes all that apply.", panel.of > 1 ? ` The last of ${panel.of} let in this step.` : ""];
  }
  const [test, , used, asked, cached, headroom, limit] = panel.rows.find(([, state]) => state === "binds");
  const short = used + asked + cached + headroom - limit, unit = UNIT[test] ?? "block";
  return [bold(panel.id), " is refused by ", bold(REFUSED_BY[test]), `, ${counted(short, unit)} short. Tests run top to bottom and stop there.`];
}

function rowOf([test, state, used, asked, cached, headroom, limit, grower, victim], panel, binds) {
  const grows = panel.kind === "growth" || panel.kind === "retraction";
  const faded = state === "off" || state === "unreached" || (grows && state !== "binds" && test !== "relief");
  const words = test === "growth" ? growthWords(asked, limit, grower, victim)
    : test === "decode" ? growthWords(asked, limit, null, grower.join(", "))
    : [(WORDS[test] ?? WORDS.blocks)({ state, used, asked, cached, headroom, limit })];
  const name = test === "growth" ? `${grower} grows` : test === "decode" ? "Next tokens" : test === "relief" ? "Pool" : NAME[test];
  const bar = test === "relief" ? relief(used, asked, limit)
    : state === "off" || (state === "unreached" && !asked) ? track([], 1) : track([[used, "used"], [cached, "cached"], [asked, "asked"], [headroom, "headroom"]], limit);
  const kind = state === "binds" ? " is-binding" : faded ? " is-faded" : "";
  return el("div", { class: `kv-test${kind}${binds ? "" : " is-kept"}` },
    el("p", {}, el("span", { class: "kv-name" }, name), " ", el("span", {}, ...words)), bar);
}

function growthWords(asked, free, grower, victim) {
  return [`${num(asked)} needed > ${num(free)} free: `, el("b", { class: "kv-bad" }, grower === victim ? "evicts itself" : `${victim} out`)];
}

const sign = (left, right) => (left > right ? ">" : "≤");

function supply({ state, asked, cached, headroom = 0, limit }) {
  if (state === "off") return "off";
  if (state === "unreached" && !asked) return "not reached";
  const parts = [`${num(asked)} new`];
  if (cached) parts.push(`${num(cached)} cached`);
  if (headroom) parts.push(`${num(headroom)} kept`);
  const sum = asked + cached + headroom, left = parts.length > 1 ? `${parts.join(" + ")} = ${num(sum)}` : parts[0];
  return `${left} ${sign(sum, limit)} ${num(limit)} free${state === "unreached" ? ", not reached" : ""}`;
}

const spent = (verb) => ({ used, asked, limit }) => (asked
  ? `${num(used)} ${verb} + ${num(asked)} ${sign(used + asked, limit)} ${num(limit)}` : `${num(used)} ${verb} of ${num(limit)}`);

const WORDS = {
  memory: ({ used, asked, limit }) => (!asked ? "not the one that binds"
    : `${used ? `${num(used)} spoken for + ` : ""}${num(asked)} ${sign(used + asked, limit)} ${num(limit)}${used ? " there" : " left"}`),
  left: ({ asked, limit }) => (asked ? `${num(asked)} needed ${sign(asked, limit)} ${num(limit)} left` : "not reached"),
  tokens: spent("spent"),
  slots: spent("running"),
  turn: spent("active"),
  rows: spent("taken"),
  credits: spent("promised"),
  drains: ({ state, used, asked, headroom, limit }) => (state === "unreached" ? "not reached"
    : `${num(used)} promised + ${num(headroom)} draining + ${num(asked)} ${sign(used + headroom + asked, limit)} ${num(limit)}`),
  pages: ({ used, headroom, limit }) => `${num(used)} taken${headroom ? ` + ${num(headroom)} draining` : ""} of ${num(limit)}`,
  blocks: spent("held"),
  whole: (row) => supply({ ...row, headroom: 0 }),
  chunk: (row) => supply({ ...row, headroom: 0 }),
  watermark: (row) => (row.state === "off" ? "off, 0 blocks kept back" : supply(row)),
  relief: ({ used, asked, limit }) => `${num(used + asked)} held before, ${num(used)} after, of ${num(limit)}`,
};

/** Segments up to the line, then what crosses it, at least so wide that it is seen. */
function track(segments, limit) {
  const scale = limit > 0 ? LIMIT / limit : 0, total = segments.reduce((sum, [size]) => sum + size, 0);
  const pieces = [];
  let sum = 0;
  for (const [size, form] of segments) {
    const from = Math.min(LIMIT, sum * scale), to = Math.min(LIMIT, (sum + size) * scale);
    if (size > 0 && from < LIMIT) pieces.push(piece(form, from, to - from));
    sum += size;
  }
  if (total > limit) pieces.push(piece("over", LIMIT, limit > 0 ? Math.max(1.6, Math.min(100 - LIMIT, (total - limit) * scale)) : 100 - LIMIT));
  return barOf(pieces);
}

/** The pool before and after a preemption: what stays held, and what came free. */
function relief(after, freed, usable) {
  return barOf([piece("used", 0, (after / usable) * LIMIT), piece("freed", (after / usable) * LIMIT, (freed / usable) * LIMIT)]);
}

function barOf(pieces) {
  return el("div", { class: "kv-bar", "aria-hidden": "true" }, ...pieces, el("i", { class: "kv-line-at", style: `left:${LIMIT}%` }));
}

const piece = (form, left, wide) => el("i", { class: `kv-${form}`, style: `left:${left.toFixed(2)}%;width:max(2px,${wide.toFixed(2)}%)` });
