// The sentence: clauses with marked words, three of them, or two where the page is narrow.
import { el } from "../dom.mjs";

const NARROW = 560;
const kept = (clauses, width) => clauses.slice(0, width < NARROW ? 2 : 3).join(" ");

/** A step's clauses as nodes: requests bold, losses marked. */
export function sentence(clauses, width) {
  return kept(clauses, width).split(/(\*\*.+?\*\*|!!.+?!!)/).filter(Boolean).map((part) => {
    if (part.startsWith("**")) return el("b", {}, part.slice(2, -2));
    return part.startsWith("!!") ? el("span", { class: "kv-bad" }, part.slice(2, -2)) : part;
  });
}

/** The longest sentence of a run at a width, without its marks: room is kept for it. */
export function longestOf(says, width) {
  const texts = says.map((clauses) => kept(clauses, width).replaceAll(/\*\*|!!/g, ""));
  return texts.reduce((one, other) => (other.length > one.length ? other : one), "");
}
