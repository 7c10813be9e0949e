// Widgets and predictions on the page that shows one of each, with no kernel anywhere.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { barriers, BOOK, launch, open, python, serve } from "./harness.mjs";

const PAGE = "book/figures.html";
const PATIENCE = { timeout: 120_000 };
const STATES = "#widget-states", TOUR = "#widget-tour";

let server, browser;
before(async () => {
  server = await serve();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server?.close();
});

/** Run `body` on a fresh page; whatever went wrong on it fails the test. */
async function on(body, { base = server.url, path = PAGE, prepare = () => {}, ...options } = {}) {
  const context = await browser.newContext(options);
  try {
    await prepare(context);
    const { page, wrong } = await open(context, base, path);
    const alarm = await body(page, context);
    assert.deepEqual(alarm ? wrong.filter((line) => !alarm.test(line)) : wrong, []);
  } finally {
    await context.close();
  }
}

const saving = (context) => context.addInitScript(() => {
  Object.defineProperty(navigator, "connection", { value: { saveData: true } });
});

const text = (page, part) => page.locator(part).first().textContent();
const says = (page, part, wanted) => page.waitForFunction(
  ([where, words]) => document.querySelector(where)?.textContent === words, [part, wanted], PATIENCE);

/** Press Tab until the focus is on such an element. */
async function tabTo(page, part) {
  for (let i = 0; i < 150; i++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((where) => document.activeElement?.matches(where), part)) return;
  }
  assert.fail(`Tab does not reach ${part}`);
}

const told = (status, event) => python(
  "from kvsched.views.states import VIEW, answer",
  `answer(VIEW(), ${JSON.stringify(status)}, ${JSON.stringify(event)})['says']`);
const run = (params) => python("from kvsched.views import find", `find("tour")(**json.loads('${JSON.stringify(params)}'))`);

/** Chapter 1's widget, by keyboard alone: choose a status, walk the events, read the answers. */
async function walkStates(page) {
  const sentence = () => text(page, `${STATES} .kv-sentence:not(.kv-longest)`);
  await tabTo(page, `${STATES} select`);
  await page.keyboard.type("RUN");
  assert.equal(await sentence(), python("from kvsched.views import find", "find('states')()['standing']['RUNNING']"));
  await tabTo(page, `${STATES} .kv-events button`);
  for (let i = 0; i < 5; i++) await page.keyboard.press("ArrowDown");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.event), "preempt");
  await page.keyboard.press("Enter");
  assert.ok((await sentence()).startsWith(told("RUNNING", "preempt")));
  assert.equal(await page.locator(`${STATES} select`).inputValue(), "PREEMPTED");
  await page.keyboard.press("Enter");
  assert.ok((await sentence()).startsWith(told("PREEMPTED", "preempt")));
  assert.equal(await text(page, `${STATES} .kv-refused`), "Refused:");
  const link = page.locator(`${STATES} .kv-line`).first();
  assert.match(await link.getAttribute("href"), /vllm\/blob\/v0\.28\.0\/vllm\/v1\/core\/sched\/scheduler\.py#L1355$/);
}

/** The stored run, by keyboard alone: step, leap, the end. */
async function walkTour(page) {
  const { steps } = run({});
  const sentence = `${TOUR} .kv-sentence:not(.kv-longest)`;
  await tabTo(page, `${TOUR} .kv-play`);
  assert.equal(await text(page, sentence), steps[9].says);
  for (const [key, step] of [["ArrowRight", 10], ["Shift+ArrowRight", 20], ["End", steps.length - 1], ["Home", 0]]) {
    await page.keyboard.press(key);
    assert.equal(await text(page, sentence), steps[step].says, `after ${key}`);
  }
}

describe("served", () => {
  test("the state diagram by keyboard", () => on(walkStates));
  test("the stored run by keyboard", () => on(walkTour));

  test("a slider's key runs Python: the same answer as here", () => on(async (page) => {
    const { sentence, steps } = run({ blocks: 23 });
    const began = Date.now();
    await page.locator(`${TOUR} input[name=blocks]`).focus();
    await page.keyboard.press("ArrowLeft");
    await says(page, `${TOUR} .kv-summary`, sentence);
    console.log(`first live result: ${((Date.now() - began) / 1000).toFixed(1)} s (bar 5 s)`);
    assert.equal(await text(page, `${TOUR} .kv-sentence:not(.kv-longest)`), steps[9].says);
    assert.equal(await page.locator(`${TOUR} .kv-table`).count(), 0, "the other run's table is gone");
    for (let blocks = 22; blocks > 12; blocks--) {
      await page.keyboard.press("ArrowLeft");
      await says(page, `${TOUR} .kv-summary`, run({ blocks }).sentence);
    }
    const times = await page.evaluate(() => performance.getEntriesByName("kv-run").slice(1).map((run) => run.duration));
    times.sort((a, b) => a - b);
    console.log(`a parameter step: median ${times[Math.floor(times.length / 2)].toFixed(0)} ms of ${times.length} (bar 100 ms)`);
  }));

  test("a menu and a switch run Python too", () => on(async (page) => {
    await page.locator(`${TOUR} select`).selectOption("priority");
    await says(page, `${TOUR} .kv-summary`, run({ policy: "priority" }).sentence);
    await page.locator(`${TOUR} input[type=checkbox]`).uncheck();
    await says(page, `${TOUR} .kv-summary`, run({ policy: "priority", caching: false }).sentence);
  }));

  test("of a burst the newest is shown, and not every one is run", () => on(async (page) => {
    await page.locator(`${TOUR} input[name=blocks]`).focus();
    for (let i = 0; i < 10; i++) await page.keyboard.press("ArrowRight");
    await says(page, `${TOUR} .kv-summary`, run({ blocks: 34 }).sentence);
    const runs = await page.evaluate(() => performance.getEntriesByName("kv-run").length);
    assert.ok(runs < 10, `${runs} runs for 10 keys`);
  }));

  test("a view's error is its message", () => on(
    (page) => says(page, `${TOUR} .kv-note`, python("from kvsched.views import reply", "reply('tour', {'blocks': 3}, {})['error']")),
    { path: `${PAGE}#tour.blocks=3` }));

  test("the address holds what was changed, and restores it", () => on(async (page, context) => {
    await page.locator(`${STATES} button[data-event=admit]`).click();
    await page.locator(`${TOUR} input[name=requests]`).focus();
    await page.keyboard.press("ArrowLeft");
    await says(page, `${TOUR} .kv-summary`, run({ requests: 3 }).sentence);
    await page.locator(`${TOUR} .kv-stepper input`).focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(() => location.hash.includes("tour.step="), null, PATIENCE);
    const other = await context.newPage();
    await other.goto(page.url());
    await says(other, `${TOUR} .kv-summary`, run({ requests: 3 }).sentence);
    for (const part of [STATES, TOUR]) {
      const sentence = `${part} .kv-sentence:not(.kv-longest)`;
      assert.equal(await text(other, sentence), await text(page, sentence));
    }
  }));

  test("a link within the page moves the widget", () => on(async (page) => {
    await page.evaluate(() => { location.hash = "#tour.step=3"; });
    await says(page, `${TOUR} .kv-sentence:not(.kv-longest)`, run({}).steps[3].says);
  }));
});

describe("when Python is not to be had", () => {
  for (const file of ["pyodide.asm.wasm", "kvsched.zip", "kvsched-worker.mjs"]) {
    test(`${file} is missing: it says so, and tries again when asked`, async () => {
      let gone = true;
      const lame = await serve(undefined, (path) => gone && path.endsWith(file));
      try {
        await on(async (page) => {
          await page.locator(`${TOUR} input[name=blocks]`).focus();
          await page.keyboard.press("ArrowLeft");
          await page.waitForFunction((part) => document.querySelector(part).textContent.startsWith("Python did not load: "), `${TOUR} .kv-note`, PATIENCE);
          await walkTour(page);
          gone = false;
          await page.locator(`${TOUR} .kv-note button`).press("Enter");
          await says(page, `${TOUR} .kv-summary`, run({ blocks: 23 }).sentence);
          return /404|[Ff]ailed|wasm|abort/;
        }, { base: lame.url });
      } finally {
        lame.close();
      }
    });
  }
});

describe("loading", () => {
  test("what a page costs before it is touched", () => on(async (page, context) => {
    const other = await context.newPage();
    const sizes = [];
    other.on("response", async (response) => {
      const body = await response.body().catch(() => Buffer.alloc(0));
      const packed = /\.(png|woff2|zip)$/.test(new URL(response.url()).pathname);
      sizes.push(packed ? body.length : gzipSync(body).length);
    });
    await other.goto(server.url + PAGE, { waitUntil: "networkidle" });
    const megabytes = sizes.reduce((sum, size) => sum + size, 0) / 1e6;
    console.log(`load before interaction: ${megabytes.toFixed(2)} MB in ${sizes.length} requests, compressed (bar 1.2 MB)`);
    assert.equal(await loads(other), false);
  }, { prepare: saving }));

  const loads = (page) => page.evaluate(() => performance.getEntriesByType("resource").some(({ name }) => name.includes("worker")));

  test("Python comes before it is asked for", () => on(async (page) => {
    await page.waitForFunction(() => performance.getEntriesByType("resource").some(({ name }) => name.includes("kvsched-worker")), null, PATIENCE);
  }));

  test("but not where the reader saves data", () => on(async (page) => {
    await page.locator(TOUR).scrollIntoViewIfNeeded();
    await page.waitForTimeout(1500);
    assert.equal(await loads(page), false);
  }, { prepare: saving }));
});

describe("opened as a file", () => {
  const file = { base: pathToFileURL(`${BOOK}/`).href };

  test("the state diagram by keyboard", () => on(walkStates, file));
  test("the stored run by keyboard, and what would make it live", () => on(async (page) => {
    await walkTour(page);
    assert.match(await text(page, `${TOUR} .kv-note`), /opened as a file.*python -m http\.server/);
    assert.equal(await page.locator(`${TOUR} input[name=blocks]`).isDisabled(), true);
  }, file));
});

describe("scripts off", () => {
  const off = { javaScriptEnabled: false };

  test("figure, sentence, caption and everything as text", () => on(async (page) => {
    for (const [part, view] of [[STATES, "states"], [TOUR, "tour"]]) {
      const { data, rows } = python("from kvsched.views import find", `v = find("${view}")`, "d = v()", "{'data': d, 'rows': len(v.table(d).rows)}");
      assert.equal(await text(page, `${part} .kv-sentence`), data.sentence);
      assert.equal(await text(page, `${part} figcaption`), data.caption);
      assert.ok((await page.locator(`${part} svg`).boundingBox()).height > 100);
      await page.locator(`${part} summary`).click();
      assert.ok(await page.locator(`${part} td`).first().isVisible());
      assert.equal(await page.locator(`${part} tbody tr`).count(), rows);
    }
  }, off));

  test("a prediction opens once something is entered", () => on(async (page) => {
    const [number, choice] = await page.locator(".kv-predict").all();
    assert.equal(await number.locator("summary").isVisible(), false);
    await number.locator("input").fill("2");
    await number.locator("summary").click();
    assert.ok(await number.locator("details p").isVisible());
    await choice.locator("input").first().check();
    assert.ok(await choice.locator("summary").isVisible());
  }, off));
});

describe("predictions", () => {
  test("a number by keyboard: locked, compared, kept nowhere", () => on(async (page) => {
    const answer = run({ blocks: 20 }).preemptions;
    await tabTo(page, ".kv-predict input[type=number]");
    await page.keyboard.press("Enter");
    assert.equal(await text(page, ".kv-predict .kv-verdict"), "Enter a number first.");
    await page.keyboard.type(String(answer - 1));
    await page.keyboard.press("Enter");
    assert.equal(await text(page, ".kv-predict .kv-verdict"), `You said ${answer - 1}: 1 too low.`);
    assert.ok(await page.locator(".kv-predict details p").first().isVisible());
    assert.equal(await page.evaluate(() => document.activeElement.tagName), "SUMMARY");
    assert.ok(await page.locator(".kv-predict input[type=number]").isDisabled());
    const kept = await page.evaluate(() => [document.cookie, ...Object.keys(sessionStorage), ...Object.keys(localStorage)].join());
    assert.doesNotMatch(kept, /kv|predict/);
    assert.equal(new URL(page.url()).hash, "");
  }));

  test("a choice by keyboard", () => on(async (page) => {
    await tabTo(page, ".kv-predict input[type=radio]");
    await page.keyboard.press("ArrowDown");
    await tabTo(page, ".kv-predict .kv-commit");
    await page.keyboard.press("Enter");
    assert.equal(await page.locator(".kv-predict .kv-verdict").last().textContent(), "You said “no”; it is “yes”.");
  }));
});

describe("for everybody", () => {
  const VIEWS = [
    ["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }],
    ["phone", { viewport: { width: 390, height: 844 } }],
  ];
  for (const [name, options] of VIEWS) {
    test(`no barrier after a refusal and a commitment: ${name}`, () => on(async (page) => {
      await page.locator(`${STATES} button[data-event=chunk]`).click();
      await page.locator(".kv-predict input[type=number]").fill("1");
      await page.keyboard.press("Enter");
      assert.deepEqual(await barriers(page, [".kv-widget", ".kv-predict"]), []);
      const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(wide <= room, `scrolls sideways: ${wide} > ${room}`);
    }, options));
  }

  test("the verdict stays in sight on a phone", () => on(async (page) => {
    await page.locator(`${STATES} button[data-event=invalid]`).tap();
    assert.ok(await page.locator(`${STATES} .kv-refused`).isVisible());
    const box = await page.locator(`${STATES} .kv-refused`).boundingBox();
    assert.ok(box.y >= 0 && box.y < 844, `the refusal is at ${box.y}`);
  }, { viewport: { width: 390, height: 844 }, hasTouch: true }));

  test("play speaks when it stops, not while it runs", () => on(async (page) => {
    await page.locator(`${TOUR} .kv-play`).press("Enter");
    await says(page, `${TOUR} .kv-place`, "step 10 of 49");
    assert.equal(await page.locator(`${TOUR} .kv-sentence:not(.kv-longest)`).getAttribute("aria-live"), "off");
    await page.locator(`${TOUR} .kv-play`).press("Enter");
    assert.equal(await page.locator(`${TOUR} .kv-sentence:not(.kv-longest)`).getAttribute("aria-live"), "polite");
  }));

  test("nothing moves by itself", () => on(async (page) => {
    await page.locator(`${STATES} button[data-event=admit]`).click();
    const moving = await page.evaluate(() => document.getAnimations().filter(({ effect }) => effect.target?.closest(".kv-w")).length);
    assert.equal(moving, 0);
  }, { reducedMotion: "reduce" }));
});
