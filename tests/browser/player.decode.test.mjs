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
    const fields = trace.engine === "sglang" ? iteration : decoded;
    steps.forEach((expected, number) => assert.deepEqual(fields(run.at(number)), expected, `${name} step ${number}`));
    const late = Math.max(0, run.count - 3);
    run.at(0);
    assert.deepEqual(fields(run.at(late)), steps[late], `${name}: back and forth`);
    cases += 1;
    count += steps.length;
  }
  assert.equal(await ended, 0, "Python ended well");
  assert.ok(cases > 190, `${cases} recordings`);
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

/** A step in the fields of kvsched.sglang.steps.Iteration, and the pages at its end. */
function iteration(step) {
  const { board } = step, { rows } = board.last, ids = (lanes) => lanes.map(({ id }) => id);
  const lingering = new Set([...ids(board.running), ...rows.map(([id]) => id)]);
  const present = [...board.lanes.values()].filter(({ id, over }) => !over || lingering.has(id));
  const after = {
    step: step.number,
    rows,
    chunked: board.chunked,
    ratio: board.ratio,
    full: board.full,
    erased: step.erased,
    waiting: ids(board.queues.waiting.inOrder()),
    running: ids(board.running),
    live: Object.fromEntries(present.map((lane) => [lane.id, [lane.num_computed_tokens, lane.num_tokens, lane.num_preemptions]])),
    denial: board.denial,
  };
  step.finish();
  step.finish = () => {};
  const holding = [...board.lanes.values()].filter(({ blocks }) => blocks.length);
  return {
    ...after,
    emitted: [...step.emitted.keys()],
    ratio_end: board.ratio,
    free_queue: [...board.free],
    owners: plain(board.cached),
    tables: Object.fromEntries(holding.map(({ id, blocks }) => [id, blocks])),
  };
}

const plain = (map) => Object.fromEntries(map);
