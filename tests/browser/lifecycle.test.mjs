// Chapter 12's widget on its page: worked moves without Python, own moves by key with it.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { barriers, BOOK, launch, python, serve, visit } from "./harness.mjs";

const PATIENCE = { timeout: 120_000 };
const PATH = "book/12_lifecycle.html", BOX = "#widget-lifecycle";
const SENTENCE = `${BOX} .kv-sentence:not(.kv-longest)`, SUMMARY = `${BOX} .kv-summary`;

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

/** What Python says of moves: a sentence for each, and the summary. */
const computed = (params = {}) => python("from kvsched.views import find",
  `(lambda d: {"says": [step["says"] for step in d["steps"]], "moves": [step["move"] for step in d["steps"]], "sentence": d["sentence"]})(find("lifecycle")(**json.loads(${JSON.stringify(JSON.stringify(params))})))`);
const place = (page) => page.textContent(`${BOX} .kv-place`);
const sum = (page) => page.locator(`${BOX} .kv-layer.is-current > text`).first().textContent();
const told = (page, part, words) => page.waitForFunction(([where, wanted]) => document.querySelector(where).textContent === wanted, [part, words], PATIENCE);

async function walk(page) {
  const { says } = computed();
  await page.locator(`${BOX} .kv-play`).focus();
  assert.equal(await page.textContent(SENTENCE), says[6]);
  assert.equal(await sum(page), "0 free + 4 draining + 0 referenced = 4 pages");
  for (const [key, step, pages] of [["ArrowRight", 7, "0 free + 4 draining"], ["ArrowRight", 8, "4 free + 0 draining"], ["ArrowRight", 9, "2 free"], ["End", says.length - 1, "1 free"], ["Home", 0, "4 free"]]) {
    await page.keyboard.press(key);
    assert.equal(await place(page), `step ${step} of ${says.length - 1}`, `after ${key}`);
    assert.equal(await page.textContent(SENTENCE), says[step], `after ${key}`);
    assert.ok((await sum(page)).startsWith(pages), await sum(page));
    const seen = await page.$$eval(`${BOX} .kv-layer`, (all) => all.filter((one) => getComputedStyle(one).display !== "none").map((one) => Number(one.dataset.step)));
    assert.deepEqual(seen, [step]);
  }
}

describe("lifecycle", () => {
  test("the worked moves by keyboard, with no Python: the pages and the sentence change", () => on(walk));

  test("a click on a line goes to that move; a refused one begins in red", () => on(async (page) => {
    await page.locator(`${BOX} .kv-step[data-step="7"]`).click();
    assert.equal(await page.textContent(`${BOX} .kv-refused`), "Refused:");
    assert.equal(await page.textContent(SENTENCE), computed().says[7]);
  }));

  test("own moves by key: 4 draining become 2 free and a refusal, as Python says", () => on(async (page) => {
    const before = computed().moves.slice(1, 7);
    await page.locator(`${BOX} .kv-play`).focus();
    for (const [key, move, pages] of [["d", "drained a", "4 free"], ["r", "resume a", "2 free"], ["t", "transfer a", "2 free"], ["p", "preempt a", "4 free"]]) {
      await page.keyboard.press(key);
      before.push(move);
      const wanted = computed({ moves: before.join("; ") });
      await told(page, SUMMARY, wanted.sentence);
      assert.equal(await page.textContent(SENTENCE), wanted.says.at(-1), `after ${key}`);
      assert.ok((await sum(page)).startsWith(pages), `after ${key}: ${await sum(page)}`);
      assert.equal(await page.locator(`${BOX} input[name=moves]`).inputValue(), before.join("; "));
    }
    assert.match(computed({ moves: before.join("; ") }).says[9], /^Refused: transfer a: it was made before/);
    await page.keyboard.press("u");
    before.pop();
    await told(page, SUMMARY, computed({ moves: before.join("; ") }).sentence);
    assert.ok((await sum(page)).startsWith("2 free"));
  }));

  test("a start takes the next free name and is chosen; keys faster than Python are all kept", () => on(async (page) => {
    await page.locator(`${BOX} .kv-play`).focus();
    await page.keyboard.press("Home");
    for (const key of ["n", "s", "f", "n", "s"]) await page.keyboard.press(key);
    const moves = "start a 3; step a; fork a b; start c 3; step c";
    await told(page, SUMMARY, computed({ moves }).sentence);
    assert.equal(await page.locator(`${BOX} .kv-hand select`).inputValue(), "c");
    await page.keyboard.press("ArrowUp");
    assert.equal(await page.locator(`${BOX} .kv-hand select`).inputValue(), "b");
  }));

  test("moves as text: played, or named by what is wrong; the address holds them", () => on(async (page) => {
    const input = page.locator(`${BOX} input[name=moves]`);
    await input.fill("start b 5; step b; evict b");
    await input.press("Enter");
    await told(page, `${BOX} .kv-note`, python("from kvsched.views import reply", "reply('lifecycle', {'moves': 'start b 5; step b; evict b'}, {})['error']"));
    await input.fill("start b 5; step b");
    await input.press("Enter");
    await told(page, SUMMARY, computed({ moves: "start b 5; step b" }).sentence);
    await page.waitForFunction(() => location.hash.includes("lifecycle.moves=start+b+5"), null, PATIENCE);
  }));

  test("a button is a move, and keeps the focus", () => on(async (page) => {
    await page.locator(`${BOX} button[data-move=drained]`).focus();
    await page.keyboard.press("Enter");
    const moves = [...computed().moves.slice(1, 7), "drained a"].join("; ");
    await told(page, SUMMARY, computed({ moves }).sentence);
    assert.equal(await page.evaluate(() => document.activeElement.dataset.move), "drained");
  }));

  for (const [name, options] of [["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }], ["phone", { viewport: { width: 390, height: 844 } }]]) {
    test(`no barrier: ${name}`, () => on(async (page) => {
      await page.locator(`${BOX} .kv-step[data-step="7"]`).click();
      assert.deepEqual(await barriers(page, [BOX]), []);
      const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(wide <= room, `scrolls sideways: ${wide} > ${room}`);
    }, options));
  }

  test("opened as a file the worked moves can be walked, and no move be made", () => visit(browser, pathToFileURL(`${BOOK}/`).href, PATH, async (page) => {
    await walk(page);
    assert.ok(await page.locator(`${BOX} button[data-move=step]`).isDisabled());
    await page.keyboard.press("n");
    assert.equal(await place(page), `step 0 of ${computed().says.length - 1}`);
  }));

  test("without scripts the figure and its words are there", () => on(async (page) => {
    assert.equal(await page.textContent(`${BOX} .kv-sentence`), computed().sentence);
    assert.ok(await page.locator(`${BOX} svg`).isVisible());
    const { says } = computed();
    await page.locator(`${BOX} summary`).click();
    assert.equal(await page.locator(`${BOX} tbody tr`).count(), says.length);
  }, { javaScriptEnabled: false }));
});
