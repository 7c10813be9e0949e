// The figures with runs to pick from, on their chapters' pages.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { barriers, launch, python, serve, visit } from "./harness.mjs";

const PATIENCE = { timeout: 120_000 };
const FIGURES = [
  { view: "storm", path: "book/00_intro.html", first: 3, turn: { input: "slots", key: "ArrowLeft", params: { slots: 124 } } },
  { view: "adder", path: "book/02_admission.html", first: 1, turn: { input: "running", key: "ArrowRight", params: { running: 9 } } },
  { view: "ordering", path: "book/04_ordering.html", first: 3, turn: { input: "cached", key: "ArrowLeft", params: { cached: 1100 } } },
  { view: "watermark", path: "book/03_watermark.html", first: 0, turn: { input: "clients", key: "ArrowLeft", params: { clients: 28 } } },
  { view: "feedback", path: "book/09_feedback.html", first: 3, turn: { input: "share", key: "ArrowLeft", params: { share: 90 } } },
  { view: "two_lines", path: "book/09_feedback.html", first: 3, turn: { input: "apart", key: "ArrowRight", params: { apart: 7 } } },
  { view: "same_answer", path: "book/08_same_answer.html", first: 5, turn: { input: "pool", key: "ArrowLeft", params: { pool: 40 } } },
  { view: "crossover", path: "book/06_swap_or_recompute.html", first: 9, turn: { input: "rate", key: "ArrowRight", params: { rate: 41000 } } },
  { view: "starvation", path: "book/10_starvation.html", first: 1, turn: { input: "credit", key: "ArrowRight", params: { credit: 150 } } },
  { view: "reservations", path: "book/11_reservations.html", first: 1, turn: { input: "release_delay", key: "ArrowRight", params: { release_delay: 3 } } },
  { view: "measured", path: "book/07_measure.html", first: 9, turn: { input: "tokens", key: "ArrowLeft", params: { tokens: 7680 } } },
];
const HOMES = [
  ["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }],
  ["phone", { viewport: { width: 390, height: 844 } }],
];

let server, browser;
before(async () => {
  server = await serve();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server?.close();
});

const on = (path, body, options) => visit(browser, server.url, path, body, options);

const computed = (view, params = {}) => python("from kvsched.views import find",
  `(lambda data: {key: data[key] for key in ("picks", "says", "sentence")})(find("${view}")(**${JSON.stringify(params)}))`);

for (const { view, path, first, turn } of FIGURES) {
  const box = `#widget-${view}`;
  const sentence = `${box} .kv-sentence:not(.kv-longest)`;
  const chosen = (page) => page.$$eval(`${box} .kv-picks button`, (all) => all.map((one) => one.getAttribute("aria-pressed")).indexOf("true"));

  describe(view, () => {
    test("what is stored can be picked by keyboard, with no Python", () => on(path, async (page) => {
      const { picks, says } = computed(view);
      await page.locator(`${box} .kv-picks button`).first().focus();
      assert.equal(await page.textContent(sentence), says[first]);
      for (const [key, pick] of [["Home", 0], ["ArrowRight", 1], ["ArrowLeft", 0], ["End", picks.length - 1]]) {
        await page.keyboard.press(key);
        assert.equal(await page.textContent(sentence), says[pick], `after ${key}`);
        assert.equal(await chosen(page), pick);
        const seen = await page.$$eval(`${box} .kv-layer`, (all) => all.filter((one) => getComputedStyle(one).display !== "none").map((one) => Number(one.dataset.pick)));
        assert.ok(seen.every((one) => one === pick), `layers ${seen} are seen`);
      }
    }));

    test("a mark in the figure picks its run", () => on(path, async (page) => {
      const { says } = computed(view);
      await page.locator(`${box} .kv-pick[data-pick="1"]`).first().click();
      assert.equal(await page.textContent(sentence), says[1]);
    }));

    test("a key on a slider runs Python: the same answer as here", () => on(path, async (page) => {
      const wanted = computed(view, turn.params);
      await page.locator(`${box} input[name=${turn.input}]`).focus();
      await page.keyboard.press(turn.key);
      await page.waitForFunction(([where, words]) => document.querySelector(where).textContent === words, [`${box} .kv-summary`, wanted.sentence], PATIENCE);
      assert.equal(await page.textContent(sentence), wanted.says[first]);
    }));

    for (const [name, options] of HOMES) {
      test(`no barrier: ${name}`, () => on(path, async (page) => {
        await page.locator(`${box} .kv-picks button`).last().click();
        assert.deepEqual(await barriers(page, [box]), []);
      }, options));
    }

    test("without scripts the figure and its words are there", () => on(path, async (page) => {
      const { sentence: said } = computed(view);
      assert.equal(await page.textContent(`${box} .kv-sentence`), said);
      assert.ok(await page.locator(`${box} svg`).isVisible());
    }, { javaScriptEnabled: false }));
  });
}
