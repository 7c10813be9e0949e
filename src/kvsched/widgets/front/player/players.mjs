// Two runs of one workload in two players with one playhead, and what sets their steps apart.
import { el } from "../dom.mjs";
import { filled } from "./decode.mjs";
import { legend } from "./legend.mjs";
import { player } from "./player.mjs";
import { longestOf, sentence } from "./sentence.mjs";
import { transport } from "./transport.mjs";

export function players(host) {
  let data, says, stops;
  const last = () => says.length - 1;
  const now = () => Math.min(host.selection.step, last());
  const time = transport({
    now,
    last,
    stop: (by) => (by > 0 ? stops.find((step) => step > now()) : stops.findLast((step) => step < now())) ?? null,
    go: (step, quiet) => host.select({ step }, quiet),
    hide: () => host.select({ hide: !host.selection.hide }),
  });
  const toFirst = el("button", { type: "button", class: "kv-first", title: "D", onclick: () => time.to(data.first) });
  const longest = ["", ""];
  const reserve = (place, text) => {
    longest[place] = text;
    const most = longest[0].length > longest[1].length ? longest[0] : longest[1];
    for (const side of sides) side.room.textContent = most;
  };
  const sides = [0, 1].map((place) => sideOf(host, place, { time, reserve }));
  const page = el("div", { class: "kv-players" }, toFirst, time.box, ...sides.map(({ box }) => box), legend());
  return {
    update() {
      if (data !== host.data) {
        data = host.data;
        says = filled(data.says);
        stops = data.runs.flatMap(({ trace }) => trace.stops).toSorted((one, other) => one - other);
        toFirst.disabled = data.first === null;
        toFirst.textContent = data.first === null ? "no difference" : `≠ first difference: step ${data.first}`;
        host.body.replaceChildren(page);
        host.reserve(longestOf(says, Infinity));
      }
      for (const side of sides) side.update();
      host.say(...sentence(says[now()], Infinity));
    },
    key(event) {
      if (event.key !== "d") return (sides.find(({ box }) => box.contains(event.target)) ?? sides[0]).key(event);
      toFirst.click();
      return true;
    },
    end() {
      for (const side of sides) side.end();
    },
  };
}

/** One of the players in a box of its own: its run, its sentence, everybody's selection. */
function sideOf(host, place, { time, reserve }) {
  const name = el("p", { class: "kv-engine-name" }), body = el("div"), words = el("p", { class: "kv-sentence" });
  const room = el("p", { class: "kv-sentence kv-longest", "aria-hidden": "true" });
  const box = el("section", { class: "kv-engine" }, name, body);
  const run = () => host.data.runs[place];
  const own = player({
    body,
    time,
    said: el("div", { class: "kv-said" }, room, words),
    get data() { return run(); },
    get selection() { return host.selection; },
    get mark() { return host.data.first; },
    select: host.select,
    say(...nodes) { words.replaceChildren(...nodes); },
    reserve(text) { reserve(place, text); },
  });
  return {
    ...own,
    box,
    room,
    update() {
      own.update();
      if (name.textContent) return;
      name.textContent = run().name;
      box.setAttribute("aria-label", run().name);
      for (const part of body.querySelectorAll(".kv-below [role=group]")) part.setAttribute("aria-label", `${run().name}: ${part.getAttribute("aria-label")}`);
    },
  };
}
