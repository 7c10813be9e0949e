// The pool in words: how many blocks are held, shared, cached, empty, and which were just taken.
import { el } from "../dom.mjs";
import { num } from "./run.mjs";

const GLYPHS = {
  held: '<rect x="1" y="1" width="11" height="11" rx="2" fill="currentColor"/>',
  shared: '<rect x="1.8" y="1.8" width="9.4" height="9.4" rx="2" fill="none" stroke="currentColor" stroke-width="1.6"/><rect x="4.2" y="4.2" width="4.6" height="4.6" fill="currentColor"/>',
  cached: '<rect x="1.8" y="1.8" width="9.4" height="9.4" rx="2" fill="none" stroke="currentColor" stroke-width="1.6"/>',
  empty: '<circle cx="6.5" cy="6.5" r="2.2" fill="currentColor"/>',
};
const WORDS_OF = { held: "held", shared: "shared", cached: "cached, no one holds them", empty: "empty" };

/** The counts, which are the key to the map's forms. */
export function countsOf({ totals }) {
  return Object.entries(totals).filter(([form, count]) => form !== "shared" || count).map(([form, count]) => countOf(form, count, WORDS_OF[form]));
}

/** The same of a pool that is promised before it is taken; draining pages are still held. */
export function promisesOf([taken, promised, draining, slack]) {
  return [countOf("held", taken, "taken"), countOf("held", draining, "draining"),
    countOf("empty", promised, "free, and promised"), countOf("empty", slack, "slack")];
}

function countOf(form, count, words) {
  const item = el("span", { class: `is-${form}` });
  item.innerHTML = `<svg viewBox="0 0 13 13" aria-hidden="true">${GLYPHS[form]}</svg>`;
  item.append(`${num(count)} ${words}`);
  return item;
}

/** One line about the blocks that were taken in this step. */
export function takenWords({ taken, unit }) {
  if (!taken.length) return [`No ${unit} changes hands in this step.`];
  if (taken.length > 24) {
    const by = new Map();
    for (const { by: id } of taken) by.set(id, (by.get(id) ?? 0) + 1);
    const each = [...by].slice(0, 4).map(([id, count]) => `${num(count)} by ${id}`).join(", ");
    return [`Taken this step: ${num(taken.length)} ${unit}s, ${each}${by.size > 4 ? " and others" : ""}.`];
  }
  const told = taken.slice(0, 5).flatMap(({ block, by, from }, at) => [
    at ? " · " : "", el("b", {}, `${block}`), ` by ${by}${from ? `, erasing ${from}’s` : ""}`]);
  return ["Taken this step: ", ...told, taken.length > 5 ? ` and ${taken.length - 5} more` : ""];
}
