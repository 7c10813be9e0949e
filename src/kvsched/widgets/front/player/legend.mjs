// How to read the marks: each phase with its form, folded away.
import { el } from "../dom.mjs";

const v = (name) => `var(--kv-${name})`;
const HATCH = (id, ink) => `<pattern id="${id}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V5" stroke="${v(ink)}" stroke-width="1.7"/></pattern>`;
const DOTS = [6, 17, 28, 39].map((x) => `<circle cx="${x}" cy="22" r="1.7" fill="${v("text")}"/>`).join("");

const ENTRIES = [
  ["waiting", "in the queue; an area above the bar is what it holds meanwhile", `<rect y="20" width="44" height="3" fill="${v("waiting")}"/>`],
  ["blocked outside", "waits for something that is not a block", `<rect y="20" width="44" height="3" fill="${v("blocked-outside")}"/><path d="M4 13h36" stroke="${v("blocked-outside")}" stroke-width="2.5" stroke-dasharray="2 4"/>`],
  ["prefill", "dark is computed now, pale was there before", `<rect y="12" width="15" height="12" fill="${v("prefill")}"/><rect x="15" y="12" width="15" height="12" fill="${v("prefill")}" opacity=".34"/><rect x="15" y="2" width="15" height="10" fill="${v("prefill")}"/>`],
  ["decode", "height is tokens held; a dot is a token sent", `<rect y="2" width="44" height="16" fill="${v("decode")}"/>${DOTS}`],
  ["preempted", "the bar is the loss, the hatch what a resume would still find", `<defs>${HATCH("kv-legend-out", "preempted")}</defs><path d="M3 2V24" stroke="${v("preempted")}" stroke-width="3"/><rect x="4" y="5" width="40" height="19" fill="url(#kv-legend-out)"/><rect x="4" y="21" width="40" height="3" fill="${v("preempted")}"/>`],
  ["found in the cache", "on the way back in", `<defs>${HATCH("kv-legend-in", "prefill")}</defs><rect x="2" y="5" width="15" height="19" fill="url(#kv-legend-in)"/><rect x="2" y="2" width="15" height="3" fill="${v("prefill")}"/><rect x="17" y="2" width="27" height="22" fill="${v("decode")}"/>`],
  ["draining", "ended, and holds its blocks until a transfer is over", `<rect x="1" y="2" width="42" height="22" fill="none" stroke="${v("draining")}" stroke-width="2"/><rect y="9" width="44" height="15" fill="${v("draining")}"/>`],
  ["done", "a cross in its place: ended otherwise", `<circle cx="8" cy="19" r="4" fill="${v("done")}" stroke="${v("done-ring")}"/><path d="m26 15 8 8m0-8-8 8" stroke="${v("text")}" stroke-width="1.6"/>`],
];

export function legend() {
  const rows = ENTRIES.map(([name, means, form]) => {
    const row = el("div");
    row.innerHTML = `<svg viewBox="0 0 44 24" aria-hidden="true"><path d="M0 23.5H44" stroke="${v("hairline-strong")}"/>${form}</svg>`;
    row.append(el("span", {}, el("b", {}, name), `: ${means}`));
    return row;
  });
  return el("details", { class: "kv-legend" }, el("summary", {}, "How to read this"), el("div", {}, ...rows));
}
