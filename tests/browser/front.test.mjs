// The front end's parts that need no page: questions, addresses, and the words of both.
import assert from "node:assert/strict";
import { test } from "node:test";
import { python } from "./harness.mjs";
import { goal, read, write } from "../../src/kvsched/widgets/front/address.mjs";
import { asking } from "../../src/kvsched/widgets/front/asking.mjs";
import { gap, match } from "../../src/kvsched/widgets/front/predict.mjs";
import { answer } from "../../src/kvsched/widgets/front/states.mjs";

/** A model whose questions are answered by hand. */
function model() {
  const values = {}, listeners = {};
  const asked = [];
  return {
    asked,
    get: (name) => values[name],
    set(name, value) {
      values[name] = value;
      for (const listener of listeners[`change:${name}`] ?? []) listener();
    },
    on: (event, listener) => (listeners[event] ??= []).push(listener),
    off: () => {},
    save_changes: () => asked.push(values.ask),
    reply: () => values.ask && listeners["change:reply"].forEach((listener) => {
      values.reply = { serial: values.ask.serial };
      listener();
    }),
  };
}

test("of a burst, the first and the newest are asked, one at a time", () => {
  const home = model();
  const ask = asking(home);
  for (let blocks = 1; blocks <= 20; blocks++) ask.want({ params: { blocks } });
  assert.deepEqual(home.asked.map((one) => one.params.blocks), [1]);
  assert.ok(ask.busy());
  home.reply();
  assert.deepEqual(home.asked.map((one) => one.params.blocks), [1, 20]);
  home.reply();
  assert.ok(!ask.busy());
  ask.again();
  assert.deepEqual(home.asked.map((one) => one.params.blocks), [1, 20, 20]);
});

test("an answer to another question changes nothing", () => {
  const home = model();
  const ask = asking(home);
  ask.want({ params: {} });
  home.set("reply", { serial: "someone else's" });
  assert.ok(ask.busy());
});

test("an address says what differs, and is read back with its types", () => {
  const first = { params: { blocks: 24, caching: true }, selection: { step: 0, status: "RUNNING" } };
  const state = { params: { blocks: 20, caching: false }, selection: { step: 7, status: "(new)" } };
  assert.equal(write([{ name: "tour", first, state: first }]), "");
  const fragment = write([{ name: "tour-2", first, state }]);
  assert.deepEqual(goal(first, read(fragment)["tour-2"]), state);
});

test("an address of a section is none of ours; nonsense is left at its first value", () => {
  for (const fragment of ["", "#a-table-you-can-walk", "#x=1"]) assert.equal(read(fragment), null);
  const first = { params: {}, selection: { step: 3 } };
  assert.deepEqual(goal(first, read("#tour.step=many&tour.other=1").tour).selection, { step: 3 });
});

test("the gap is said in numbers", () => {
  assert.equal(gap(2, 4, ""), "You said 2: 2 too low.");
  assert.equal(gap(8193, 8192, "tokens"), "You said 8,193 tokens: 1 too high.");
  assert.equal(gap(0.3, 0.1 + 0.2, ""), "You said 0.3: exactly.");
  assert.equal(match("no", "yes"), "You said “no”; it is “yes”.");
});

test("every move and every refusal is Python's, word by word", () => {
  const { data, told } = python(
    "from kvsched.views.states import VIEW, EVENTS, answer",
    "data = VIEW()",
    "told = [[s, e.id, answer(data, s, e.id)] for s in data['standing'] for e in EVENTS]",
    "{'data': data, 'told': told}");
  assert.ok(told.length > 200);
  for (const [status, event, { legal, to, says }] of told) {
    assert.deepEqual(answer(data, status, event), { legal, to, says });
  }
});
