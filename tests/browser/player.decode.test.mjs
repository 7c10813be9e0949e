// The player's script rebuilds from a stored run what Python rebuilds from the log, in every step.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";
import { PYTHON } from "./harness.mjs";
import { Steps } from "../../src/kvsched/widgets/front/player/steps.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const env = { ...process.env, PYTHONPATH: here("../../src") };

test("decoded steps are the rebuilt ones", async () => {
  const python = spawn(PYTHON, [here("../views/decoded.py")], { env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((done) => python.on("close", done));
  let cases = 0, count = 0;
  for await (const line of createInterface({ input: python.stdout })) {
    const { name, trace, steps } = JSON.parse(line);
    const run = new Steps(trace);
    assert.equal(run.count, steps.length, name);
    steps.forEach((expected, number) => assert.deepEqual(decoded(run.at(number)), expected, `${name} step ${number}`));
    const late = Math.max(0, run.count - 3);
    run.at(0);
    assert.equal(shown(run.at(late), "").free_crc, steps[late].free_crc, `${name}: back and forth`);
    cases += 1;
    count += steps.length;
  }
  assert.equal(await ended, 0, "Python ended well");
  assert.ok(cases > 150, `${cases} recordings`);
  console.log(`${cases} recordings, ${count} steps`);
});

/** A step in the fields of kvsched.steps.StepRecord. */
function decoded(step) {
  const { board } = step;
  const first = {
    step: step.number,
    scheduled: plain(step.scheduled),
    sampling: plain(step.sampling),
    denial: board.denial,
    erased: step.erased,
    ended_before: step.endedBefore,
    prefilling: [...board.prefilling].sort(),
    loaded: [...board.reported].sort(),
    holders: plain(board.holders()),
    ...shown(step, ""),
  };
  step.finish();
  step.finish = () => {};
  return { ...first, emitted: plain(step.emitted), ...shown(step, "_end") };
}

function shown({ board }, suffix) {
  const fields = {
    waiting: board.queues.waiting.inOrder().map(({ id }) => id),
    skipped: board.queues.skipped.inOrder().map(({ id }) => id),
    running: board.running.map(({ id }) => id),
    live: Object.fromEntries([...board.lanes.values()].map((lane) => [lane.id, [lane.status,
      lane.num_computed_tokens, lane.num_tokens, lane.num_preemptions, lane.drop_stale_output]])),
    slots: [...board.lanes.values()].filter(({ status }) => status === "WAITING_FOR_STREAMING_REQ").length,
    free: board.free.size,
    free_crc: crc32([...board.free].join(",")),
    cached: board.cached.size,
  };
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name + suffix, value]));
}

const plain = (map) => Object.fromEntries(map);
