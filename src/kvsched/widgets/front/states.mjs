// The state diagram: put a request into a status, make something happen, see the move or refusal.
import { el } from "./dom.mjs";

/** What an event does in a status. The words are the view's, for moves and refusals alike. */
export function answer(data, status, event) {
  const move = data.moves.find((one) => one.from === status && one.event === event);
  if (move) return { legal: true, to: move.to, says: move.says };
  const { refusal } = data.events.find((one) => one.id === event);
  return { legal: false, to: status, says: refusal.replace("{status}", status) };
}

export function states(host) {
  const { data } = host;
  const figure = host.figure;
  const result = () => {
    const { status, event } = host.selection;
    return event ? answer(data, status, event) : { legal: true, to: status, says: null };
  };
  const place = (status) => host.select({ status, event: "" });
  const names = [data.start, ...data.nodes.map((node) => node.id)];
  const menu = el("select", { onchange: () => place(menu.value) }, ...names.map((id) => el("option", {}, id)));
  const happen = (event) => host.select({ status: result().to, event });
  const events = toolbar(data, happen);
  figure.addEventListener("click", (event) => {
    const node = event.target.closest("[data-status]");
    if (node) place(node.dataset.status);
  });
  host.body.replaceChildren(el("div", { class: "kv-two" },
    figure,
    el("div", { class: "kv-acts" }, el("label", { class: "kv-status" }, "The request is ", menu), events.box)));
  return {
    update() {
      const { status, event } = host.selection;
      const { legal, to, says } = result();
      menu.value = to;
      events.update(event, legal);
      mark(figure, { status, event, legal, to }, data);
      if (says === null) host.say(data.standing[to]);
      else host.say(...told(data, event, legal, says));
    },
    key: events.key,
    end() {},
  };
}

/** Mark the status the request is in, the moves that leave it, and the move just made. */
function mark(figure, { status, event, legal, to }, data) {
  const made = event && legal && data.moves.find((move) => move.from === status && move.event === event);
  for (const node of figure.querySelectorAll(".kv-state")) {
    node.classList.toggle("is-current", node.dataset.status === to);
    node.classList.toggle("is-refused", !legal && node.dataset.status === to);
  }
  for (const arrow of figure.querySelectorAll(".kv-move")) {
    const { from, to: target } = arrow.dataset;
    arrow.classList.toggle("is-leaving", from === to);
    arrow.classList.toggle("is-made", Boolean(made) && from === made.from && target === made.to);
  }
}

/** The sentence, a refusal by its first word in the colour of refusals, and the engine's lines. */
function told(data, event, legal, says) {
  const lines = data.events.find((one) => one.id === event).lines;
  const links = lines.flatMap(([place, url]) => [" ", el("a", { href: url, class: "kv-line" }, place)]);
  if (legal) return [says, ...links];
  const [first, ...rest] = says.split(" ");
  return [el("b", { class: "kv-refused" }, first), ` ${rest.join(" ")}`, ...links];
}

/** The events, grouped by who causes them: one stop for Tab, arrow keys inside. */
function toolbar(data, happen) {
  const box = el("div", { class: "kv-events", role: "toolbar", "aria-label": "events", "aria-orientation": "vertical" });
  const buttons = [];
  for (const cause of new Set(data.events.map((event) => event.cause))) {
    const group = el("div", { role: "group", "aria-label": cause }, el("p", { "aria-hidden": "true" }, cause));
    for (const { id, label } of data.events.filter((event) => event.cause === cause)) {
      const button = el("button", { type: "button", "data-event": id, onclick: () => happen(id) }, label);
      buttons.push(button);
      group.append(button);
    }
    box.append(group);
  }
  const reach = (button) => buttons.forEach((one) => { one.tabIndex = one === button ? 0 : -1; });
  box.addEventListener("focusin", (event) => reach(event.target));
  reach(buttons[0]);
  const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
  return {
    box,
    update(event, legal) {
      for (const button of buttons) {
        const chosen = button.dataset.event === event;
        button.setAttribute("aria-pressed", chosen);
        button.classList.toggle("is-refused", chosen && !legal);
        if (chosen) reach(button);
      }
    },
    key(event) {
      const at = buttons.indexOf(event.target);
      if (at < 0) return false;
      const by = STEPS[event.key];
      const next = by ? at + by : { Home: 0, End: buttons.length - 1 }[event.key];
      if (next === undefined) return false;
      buttons[(next + buttons.length) % buttons.length].focus();
      return true;
    },
  };
}
