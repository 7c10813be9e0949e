// The step player by keyboard, at every width and in both themes.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { barriers, launch, PYTHON, serve, visit } from "./harness.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const STORED = ["many", "priority", "shared", "watermark", "deadlock", "session", "draining", "mixed", "lost"];
const FRAME_MS = 16;
const shots = process.env.SCREENSHOTS;
if (shots) mkdirSync(shots, { recursive: true });

let folder, server, browser;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "player-"));
  const env = { ...process.env, PYTHONPATH: here("../../src") };
  execFileSync(PYTHON, [here("player_page.py"), folder], { env, stdio: "inherit" });
  server = await serve(folder);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server?.close();
  if (folder) rmSync(folder, { recursive: true });
});

const on = (path, body, { width = 1150, scripts = true } = {}) => visit(browser, server.url, path, body, { viewport: { width, height: 900 }, javaScriptEnabled: scripts });

const timesOf = (page, name) => page.evaluate((measure) => performance.getEntriesByName(measure).map(({ duration }) => duration), name);
const median = (values) => values.toSorted((one, other) => one - other)[values.length >> 1];
const sentence = (page) => page.textContent(".kv-sentence:not(.kv-longest)");
const step = async (page) => Number(await page.textContent(".kv-number b"));

async function tabTo(page, selector) {
  for (let presses = 0; presses < 40; presses++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
  }
  assert.fail(`no ${selector} by Tab`);
}

describe("by keyboard", () => {
  test("the sentences of the example carry its numbers", () => on("", async (page) => {
    await tabTo(page, ".kv-scrub");
    await page.keyboard.press("ArrowRight");
    assert.match(await sentence(page), /8,192 tokens lost, 512 blocks given back/);
    await page.keyboard.press("ArrowRight");
    assert.match(await sentence(page), /takes 513 blocks.* and 510 are free/);
    for (let i = 0; i < 4; i++) await page.keyboard.press("ArrowRight");
    assert.match(await sentence(page), /finds 8,160 of its 8,192 lost tokens .* computes 33/);
  }));

  test("a changed parameter gives a new, correct player", () => on("", async (page) => {
    const expected = JSON.parse(readFileSync(join(folder, "expected.json"), "utf-8"));
    await tabTo(page, "input[name=blocks]");
    await page.keyboard.press("ArrowRight");
    await page.getByText("in 2,050 blocks of 16").waitFor({ timeout: 60_000 });
    await tabTo(page, ".kv-scrub");
    for (const said of expected.slice(0, 8)) {
      assert.equal(await sentence(page), said);
      await page.keyboard.press("ArrowRight");
    }
    await page.focus("input[name=blocks]");
    for (let blocks = 2051; blocks <= 2060; blocks++) {
      await page.keyboard.press("ArrowRight");
      await page.getByText(`in ${blocks.toLocaleString("en-US")} blocks of 16`).waitFor();
    }
    const spent = await timesOf(page, "kv-run");
    console.log(`a parameter step: ${median(spent.slice(1)).toFixed(0)} ms median of ${spent.length - 1}, the first ${spent[0].toFixed(0)} ms with loading Python`);
  }));

  test("jump, home, end, play; keys elsewhere do nothing", () => on("", async (page) => {
    await tabTo(page, "a");
    await page.keyboard.press("ArrowRight");
    assert.equal(await step(page), 0);
    await tabTo(page, ".kv-scrub");
    const moves = [["]", 1], ["]", 2], ["[", 1], ["End", 44], ["Home", 0], ["Shift+ArrowRight", 10]];
    for (const [key, number] of moves) {
      await page.keyboard.press(key);
      assert.equal(await step(page), number, key);
    }
    await page.keyboard.press("Space");
    assert.equal(await page.getAttribute(".kv-sentence:not(.kv-longest)", "aria-live"), "polite");
    await page.waitForFunction(() => document.querySelector(".kv-number b").textContent === "11");
    assert.equal(await page.getAttribute(".kv-sentence:not(.kv-longest)", "aria-live"), "off", "silent while it plays");
    await page.keyboard.press("Space");
    assert.equal(await page.getAttribute(".kv-sentence:not(.kv-longest)", "aria-live"), "polite");
  }));

  test("a request, and a single block", () => on("", async (page) => {
    await tabTo(page, ".kv-scrub");
    await page.keyboard.press("]");
    for (let i = 0; i < 4; i++) await page.keyboard.press("ArrowDown");
    assert.equal(await page.getAttribute(".kv-chip[data-id=D]", "aria-pressed"), "true");
    await tabTo(page, ".kv-map");
    await page.keyboard.press("ArrowRight");
    assert.match(await page.textContent(".kv-blockline"), /^Block 2046: was D’s, still readable; next out of the free queue/);
    await page.keyboard.press("ArrowLeft");
    assert.match(await page.getAttribute(".kv-map", "aria-valuetext"), /^block 2045: .* number 2 in the free queue/);
    assert.equal(await step(page), 1, "the arrows move among blocks here");
    await page.keyboard.press("Escape");
    assert.equal(await page.getAttribute(".kv-chip[data-id=D]", "aria-pressed"), "false");
  }));

  test("the future hides, and the address keeps the place", () => on("", async (page) => {
    await tabTo(page, ".kv-scrub");
    await page.keyboard.press("]");
    await page.keyboard.press("f");
    assert.equal(await page.textContent(".kv-future"), "show the future");
    await page.waitForFunction(() => location.hash.includes("preemption.step=1") && location.hash.includes("preemption.hide=true"));
  }));
});

describe("at every width", () => {
  for (const [theme, widths] of [["light", [1150, 720, 390, 320]], ["dark", [1150, 390]]]) {
    for (const width of widths) {
      test(`${width} ${theme}`, () => on(`?theme=${theme}#preemption.step=2`, async (page) => {
        const wide = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(wide[0] <= wide[1], `scrolls sideways: ${wide}`);
        if (shots) await page.screenshot({ path: join(shots, `player-${width}-${theme}.png`), fullPage: true });
        assert.deepEqual(await barriers(page, [".kv-widget"]), []);
      }, { width }));
    }
  }
  test("stepping moves nothing below the sentence", () => on("#preemption.step=0", async (page) => {
    await page.focus(".kv-scrub");
    const tops = new Set();
    for (let i = 0; i < 9; i++) {
      tops.add(await page.evaluate(() => document.querySelector(".kv-lanes").getBoundingClientRect().top + scrollY));
      await page.keyboard.press("ArrowRight");
    }
    assert.equal(tops.size, 1, [...tops].join());
  }, { width: 390 }));
});

describe("other runs", () => {
  for (const name of STORED) {
    test(name, () => on(`${name}.html`, async (page) => {
      await page.focus(".kv-scrub");
      for (let i = 0; i < 9; i++) await page.keyboard.press("ArrowRight");
      assert.ok((await sentence(page)).length > 10);
    }));
  }
  test("the next victim is named by the policy's own rule", async () => {
    await on("priority.html#priority.step=20", async (page) => assert.match(await page.textContent(".kv-queues"), /is the next victim, priority \d+ being the largest/));
    await on("retraction.html#retraction.step=85", async (page) => assert.match(await page.textContent(".kv-queues"), /D is the next victim, with the fewest outputs/));
    await on("many.html#many.step=20", async (page) => assert.match(await page.textContent(".kv-queues"), /is the next victim, admitted last/));
  });
});

describe("a run of SGLang", () => {
  for (const width of [1150, 390]) {
    test(`a retraction at ${width}`, () => on("retraction.html#retraction.step=86", async (page) => {
      assert.match(await sentence(page), /^The next tokens need 1 page and none is free. D has the fewest outputs: 506 tokens lost/);
      assert.match(await page.textContent(".kv-queues"), /new_token_ratio 0.6652/);
      assert.match(await page.textContent(".kv-tests"), /1 needed > 0 free: D out/);
      assert.match(await page.textContent(".kv-pool"), /KV pages 128 pages of 16 tokens/);
      const wide = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(wide[0] <= wide[1], `scrolls sideways: ${wide}`);
      if (shots) await page.screenshot({ path: join(shots, `retraction-${width}.png`), fullPage: true });
      assert.deepEqual(await barriers(page, [".kv-widget"]), []);
    }, { width }));
  }
  test("a refusal for memory, outputs to come included", () => on("retraction.html#retraction.step=87", async (page) => {
    assert.match(await page.textContent(".kv-tests"), /D is refused by the memory test, 238 tokens short/);
    assert.match(await page.textContent(".kv-queues"), /batch_is_full/);
  }));
});

for (const path of ["example.html", "long.html"]) {
  test(`a step is drawn in a frame: ${path}`, () => on(path, async (page) => {
    await page.focus(".kv-scrub");
    for (let i = 0; i < 40; i++) await page.keyboard.press("ArrowRight");
    const spent = await timesOf(page, "kv-step");
    console.log(`${path}: ${median(spent).toFixed(1)} ms median of ${spent.length} steps`);
    assert.ok(median(spent) <= FRAME_MS, `${median(spent)} ms`);
  }));
}

test("without scripts the lanes are a picture, and every step stands in words", () => on("", async (page) => {
  assert.match(await page.textContent("figure svg"), /−8,192 tokens/);
  assert.ok(await page.locator("figure svg").isVisible());
  assert.match(await page.textContent(".kv-table"), /and 510 are free/);
}, { scripts: false }));
