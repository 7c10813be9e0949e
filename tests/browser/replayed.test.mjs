// The player of a replay, on its chapter's page: what a key moves, in words and in the budgets' bars.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { barriers, launch, python, serve, visit } from "./harness.mjs";

const PATIENCE = { timeout: 120_000 };
const PAGE = "book/11_reservations.html", BOX = "#widget-replayed";
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

const on = (body, options) => visit(browser, server.url, PAGE, body, options);
const WIDE = { viewport: { width: 1280, height: 900 } };

/** Sentence, summary and stops as Python has them. */
const computed = (params = {}) => python("from itertools import accumulate", "from kvsched.views import find",
  "plain = lambda clause: clause.replace('**', '').replace('!!', '')",
  `(lambda data: {"sentence": data["sentence"], "stops": data["trace"]["stops"], "says": [" ".join(map(plain, said)) for said in accumulate(data["trace"]["says"], lambda last, now: now or last)]})(find("replayed")(**${JSON.stringify(params)}))`);

const binding = (page) => page.textContent(`${BOX} .kv-test.is-binding p`);
const counts = (page) => page.locator(`${BOX} .kv-counts span`).allTextContents();

describe("a replay in the player", () => {
  test("a key changes the sentence, the bar that binds, and the pool", () => on(async (page) => {
    const { says, stops } = computed();
    await page.locator(`${BOX} .kv-scrub`).focus();
    assert.equal(await page.textContent(SENTENCE), says[1]);
    assert.equal(await binding(page), "Credits 5 promised + 4 > 8");
    assert.deepEqual(await counts(page), ["3 taken", "0 draining", "2 free, and promised", "3 slack"]);
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.textContent(SENTENCE), says[2]);
    assert.equal(await binding(page), "Credits and drains 4 promised + 1 draining + 4 > 8");
    assert.deepEqual(await counts(page), ["2 taken", "1 draining", "2 free, and promised", "3 slack"]);
    await page.keyboard.press("]");
    assert.equal(await page.textContent(SENTENCE), says[stops.find((step) => step > 2)]);
    await page.keyboard.press("End");
    assert.equal(await page.textContent(SENTENCE), says.at(-1));
    assert.deepEqual(await counts(page), ["0 taken", "0 draining", "0 free, and promised", "8 slack"]);
    assert.equal(await page.locator(`${BOX} .kv-free`).isVisible(), false, "pages that are only counted form no queue");
  }, WIDE));

  test("a key on a slider runs Python: the same answer as here", () => on(async (page) => {
    const wanted = computed({ release_delay: 2 });
    await page.locator(`${BOX} input[name=release_delay]`).focus();
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction(([where, words]) => document.querySelector(where).textContent === words, [`${BOX} .kv-summary`, wanted.sentence], PATIENCE);
    assert.equal(await page.textContent(SENTENCE), wanted.says[1]);
  }, WIDE));

  for (const [name, options] of [["light", { ...WIDE, colorScheme: "light" }], ["dark", { ...WIDE, colorScheme: "dark" }], ["phone", { viewport: { width: 390, height: 844 } }]]) {
    test(`no barrier: ${name}`, () => on(async (page) => assert.deepEqual(await barriers(page, [BOX]), []), options));
  }
});
