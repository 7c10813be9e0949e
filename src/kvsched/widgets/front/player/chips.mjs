// The queues as rows of chips, head first, each with what is to come for it in words.
import { el } from "../dom.mjs";
import { phaseName } from "./run.mjs";

const MOST = 48;
const FORM = { decode: "is-decode", idle: "is-idle", prefill: "is-prefill", preempted: "is-out", draining: "is-draining", "blocked-outside": "is-blocked" };

/** Rows of chips in an element; `pick(id)` when one is pressed. */
export function queueRows(pick) {
  const box = el("dl", { class: "kv-queues" });
  box.addEventListener("click", (event) => {
    const id = event.target.closest("[data-id]")?.dataset.id;
    if (id !== undefined) pick(id);
  });
  let shown = "";
  return {
    box,
    draw(run, step, { number, selected, panel }) {
      const rows = rowsOf(run, step, panel);
      const chips = (ids) => ids.slice(0, MOST).map((id) => [id, run.phaseOf(id, number)]);
      const wanted = JSON.stringify([selected, rows.map((row) => [row, chips(row.ids)])]);
      if (wanted === shown) return;
      shown = wanted;
      const focused = box.contains(document.activeElement) ? document.activeElement.dataset.id : null;
      box.classList.toggle("has-many", run.lanes.length > 8);
      box.replaceChildren(...rows.flatMap((row) => lineOf(row, chips(row.ids), selected)));
      if (focused) [...box.querySelectorAll("[data-id]")].find(({ dataset }) => dataset.id === focused)?.focus();
    },
  };
}

function rowsOf(run, { board }, panel) {
  const ids = (lanes) => lanes.map(({ id }) => id);
  const alive = board.running.filter(({ over }) => !over);
  const running = ids(alive), waiting = ids(board.queues.waiting.inOrder()), aside = ids(board.queues.skipped.inOrder());
  const denied = panel.kind === "denied" ? panel.id : null;
  const closed = panel.kind === "growth" || panel.kind === "retraction";
  const tell = (row) => (closed && row.length ? ["not tried", false]
    : denied !== null && row[0] === denied ? ["head denied", true] : ["", false]);
  const rows = [
    { name: "running", ids: running, note: victimOf(run.config, alive), bad: false },
    { name: "waiting", ids: waiting, note: tell(waiting)[0], bad: tell(waiting)[1] },
  ];
  if (board.ratio !== undefined) rows.push({ name: "ratio", ids: [], note: `new_token_ratio ${board.ratio.toFixed(4)}${board.full ? "; batch_is_full" : ""}`, bad: false });
  if (aside.length) rows.push({ name: "set aside", ids: aside, note: tell(aside)[0], bad: tell(aside)[1] });
  return rows;
}

/** Who would be thrown out next, by the policy's own rule; under "fifo" nobody ever is. */
function victimOf({ policy, retraction, sign }, running) {
  if (running.length < 2 || policy === "fifo") return "";
  if (retraction) return leastKept(retraction === "priority" ? -sign : 0, running);
  if (policy === "fcfs") return `${running.at(-1).id} is the next victim, admitted last`;
  const worse = (one, other) => one.priority - other.priority || one.arrival_time - other.arrival_time;
  const victim = running.reduce((worst, lane) => (worse(lane, worst) > 0 ? lane : worst));
  return `${victim.id} is the next victim, priority ${victim.priority} being the largest`;
}

/** SGLang's rule: the fewest outputs, then the longest prompt; of equals the later in the batch. */
function leastKept(weight, running) {
  const outputs = (lane) => lane.num_tokens - lane.num_prompt_tokens;
  const rank = (one, other) => weight * (one.priority - other.priority) || outputs(one) - outputs(other)
    || other.num_prompt_tokens - one.num_prompt_tokens;
  const victim = running.reduce((worst, lane) => (rank(lane, worst) <= 0 ? lane : worst));
  return `${victim.id} is the next victim, with the ${weight ? "worst priority" : "fewest outputs"}`;
}

function lineOf({ name, ids, note, bad }, chips, selected) {
  const buttons = chips.map(([id, phase]) => el("button", {
    type: "button", class: `kv-chip ${FORM[phase] ?? ""}`, "data-id": id, "aria-pressed": String(id === selected),
    "aria-label": `${id}, ${phaseName(phase)}`,
  }, id));
  const more = ids.length > MOST ? `and ${ids.length - MOST} more` : "";
  const words = [more, note || (ids.length ? "" : "no one")].filter(Boolean).join("; ");
  return [el("dt", {}, name), el("dd", {}, ...buttons, el("em", { class: bad ? "kv-bad" : "" }, words))];
}
