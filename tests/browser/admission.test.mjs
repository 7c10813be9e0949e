// Chapter 2's widget on its page: which test binds, step by step, and what turning a budget does.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { barriers, launch, python, serve, visit } from "./harness.mjs";

const PATIENCE = { timeout: 120_000 };
const PATH = "book/02_admission.html", BOX = "#widget-admission";
const SENTENCE = `${BOX} .kv-sentence:not(.kv-longest)`;

let server, browser;
before(async () => {
  server = await serve();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server?.close();
});

const on = (body, options) => visit(browser, server.url, PATH, body, options);

/** What Python says of a run: each step in words, the runs of refusals, the summary. */
const computed = (params = {}) => python("from kvsched.views import find", "from itertools import accumulate", "from kvsched.explain.short import plain",
  `(lambda d: {"says": [" ".join(map(plain, s)) for s in accumulate(d["says"], lambda a, b: b or a)], "binding": d["binding"], "sentence": d["sentence"]})(find("admission")(**json.loads('${JSON.stringify(params)}')))`);
const binding = (page) => page.locator(`${BOX} .kv-test.is-binding .kv-name`).allTextContents();
const place = (page) => page.textContent(`${BOX} .kv-place`);

describe("admission", () => {
  test("steps by keyboard, with no Python: the sentence and the binding test change", () => on(async (page) => {
    const { says } = computed();
    await page.locator(`${BOX} .kv-play`).focus();
    assert.equal(await page.textContent(SENTENCE), says[24]);
    assert.deepEqual(await binding(page), ["Whole sequence"]);
    for (const [key, step, test] of [["]", 48, ["Token budget"]], ["]", 50, ["Whole sequence"]], ["]", 56, ["Slots"]], ["ArrowLeft", 55, ["Whole sequence"]], ["[", 50, ["Whole sequence"]], ["End", says.length - 1, []], ["Home", 0, ["Token budget"]]]) {
      await page.keyboard.press(key);
      assert.equal(await place(page), `step ${step} of ${says.length - 1}`, `after ${key}`);
      assert.equal(await page.textContent(SENTENCE), says[step], `after ${key}`);
      assert.deepEqual(await binding(page), test, `after ${key}`);
    }
  }));

  test("both sides of the inequality stand in words", () => on(async (page) => {
    const [[, , , , asked, limit]] = computed().binding.filter(([row, first]) => row === 2 && first === 24);
    const words = await page.locator(`${BOX} .kv-test.is-binding p`).textContent();
    assert.ok(words.includes(`${asked} new > ${limit} free`), words);
  }));

  test("a click on the strip goes to that step", () => on(async (page) => {
    const figure = page.locator(`${BOX} svg.kv-admission`), { width, height } = await figure.boundingBox();
    await figure.click({ position: { x: width * (104 + (456 - 104) * (60.5 / 152)) / 460, y: height / 3 } });
    assert.equal(await place(page), "step 60 of 151");
    assert.deepEqual(await binding(page), ["Slots"]);
  }));

  test("a key on a slider and a switch run Python: the same answer as here", () => on(async (page) => {
    const says = (wanted) => page.waitForFunction(([where, words]) => document.querySelector(where).textContent === words, [`${BOX} .kv-summary`, wanted.sentence], PATIENCE);
    await page.locator(`${BOX} input[name=slots]`).focus();
    await page.keyboard.press("ArrowRight");
    await says(computed({ slots: 9 }));
    await page.locator(`${BOX} input[name=gate]`).press("Space");
    const off = computed({ slots: 9, gate: false });
    await says(off);
    assert.equal(await page.textContent(SENTENCE), off.says[24]);
    assert.equal(await page.locator(`${BOX} .kv-table`).count(), 0, "the other run's table is gone");
  }));

  for (const [name, options] of [["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }], ["phone", { viewport: { width: 390, height: 844 } }]]) {
    test(`no barrier: ${name}`, () => on(async (page) => {
      assert.deepEqual(await barriers(page, [BOX]), []);
      const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(wide <= room, `scrolls sideways: ${wide} > ${room}`);
    }, options));
  }

  test("without scripts the figure and its words are there", () => on(async (page) => {
    assert.equal(await page.textContent(`${BOX} .kv-sentence`), computed().sentence);
    assert.ok(await page.locator(`${BOX} svg`).isVisible());
  }, { javaScriptEnabled: false }));
});
