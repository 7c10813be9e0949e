// Two players on one playhead: what a key moves, what is marked, at every width.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { barriers, launch, PYTHON, serve, visit } from "./harness.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const shots = process.env.SCREENSHOTS;
if (shots) mkdirSync(shots, { recursive: true });

let folder, server, browser, agree, tie;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "players-"));
  const env = { ...process.env, PYTHONPATH: here("../../src") };
  execFileSync(PYTHON, [here("player_page.py"), folder], { env, stdio: "inherit" });
  [agree, tie] = JSON.parse(readFileSync(join(folder, "pair.json"), "utf-8"));
  server = await serve(folder);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server?.close();
  if (folder) rmSync(folder, { recursive: true });
});

const on = (path, body, { width = 1150, scripts = true } = {}) => visit(browser, server.url, path, body, { viewport: { width, height: 900 }, javaScriptEnabled: scripts });

const plain = (clauses) => clauses.join(" ").replaceAll(/\*\*|!!/g, "");
const filled = (values) => values.reduce((all, value) => [...all, value ?? all.at(-1)], []);
const said = (page) => page.textContent(".kv-w > .kv-said .kv-sentence:not(.kv-longest)");
const steps = async (page) => (await page.locator(".kv-number b").allTextContents()).map(Number);

/** Both players stand at a step and say what Python says. */
async function standsAt(page, data, step) {
  const ends = data.runs.map(({ trace }) => trace.events.length - 1);
  assert.deepEqual(await steps(page), ends.map((end) => Math.min(end, step)));
  assert.equal(await said(page), plain(filled(data.says)[step]));
  const words = await page.locator(".kv-engine .kv-sentence:not(.kv-longest)").allTextContents();
  data.runs.forEach(({ trace }, i) => {
    const whole = plain(filled(trace.says)[Math.min(ends[i], step)]);
    assert.ok(words[i] && whole.startsWith(words[i]), `${trace.engine}, step ${step}: ${words[i]}`);
  });
}

describe("by keyboard", () => {
  test("a key in either player moves both", () => on("pair.html#pair.step=0", async (page) => {
    await standsAt(page, agree, 0);
    for (const place of [0, 1]) {
      await page.locator(".kv-scrub").nth(place).focus();
      await page.keyboard.press("Home");
      for (let step = 1; step <= 4; step++) {
        await page.keyboard.press("ArrowRight");
        await standsAt(page, agree, step);
      }
      await page.keyboard.press("ArrowLeft");
      await standsAt(page, agree, 3);
    }
  }));

  test("the first difference is a key away, and named on both sliders", () => on("pair.html#pair.step=0", async (page) => {
    await page.locator(".kv-scrub").first().focus();
    await page.keyboard.press("End");
    await standsAt(page, agree, agree.says.length - 1);
    await page.keyboard.press("d");
    await standsAt(page, agree, 2);
    assert.match(await said(page), /^The first difference\. vLLM: A 1, B 4; B admitted\. SGLang: B 4; B admitted\.$/);
    for (const slider of await page.locator(".kv-scrub").all()) {
      assert.match(await slider.getAttribute("aria-valuetext"), /^step 2 of \d+, the first difference$/);
    }
    assert.equal(await page.textContent(".kv-first"), "≠ first difference: step 2");
    await page.keyboard.press("]");
    await standsAt(page, agree, 7);
    await page.keyboard.press("]");
    await standsAt(page, agree, 8);
  }));

  test("another workload gives two new, correct players", () => on("pair.html", async (page) => {
    await page.selectOption("select[name=workload]", "differ_tie");
    await page.getByText(tie.sentence).waitFor({ timeout: 60_000 });
    await page.locator(".kv-scrub").first().focus();
    await page.keyboard.press("d");
    await standsAt(page, tie, 1);
    for (let step = 2; step < tie.says.length; step++) {
      await page.keyboard.press("ArrowRight");
      await standsAt(page, tie, step);
    }
  }));

  test("a request is chosen in both", () => on("pair.html", async (page) => {
    await page.locator(".kv-scrub").first().focus();
    assert.equal(await page.locator(".kv-chip[data-id=A][aria-pressed=true]").count(), 0);
    await page.keyboard.press("ArrowDown");
    assert.equal(await page.locator(".kv-chip[data-id=A][aria-pressed=true]").count(), 2);
  }));
});

for (const [theme, width] of [["light", 1150], ["dark", 1150], ["light", 800], ["light", 720], ["light", 390], ["dark", 390], ["light", 320]]) {
  test(`${width} ${theme}`, () => on(`pair.html?theme=${theme}`, async (page) => {
    const wide = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(wide[0] <= wide[1], `scrolls sideways: ${wide}`);
    const [one, other] = await Promise.all((await page.locator(".kv-engine").all()).map((side) => side.boundingBox()));
    if (width >= 800) assert.ok(one.y === other.y && one.x + one.width <= other.x, "side by side");
    else assert.ok(one.x === other.x && one.y + one.height <= other.y, "one above the other");
    if (width >= 800) {
      const tops = await page.$$eval(".kv-lanes", (all) => all.map((lanes) => lanes.getBoundingClientRect().top));
      assert.equal(tops[0], tops[1], "lanes at one height");
    }
    if (shots) await page.screenshot({ path: join(shots, `players-${width}-${theme}.png`), fullPage: true });
    assert.deepEqual(await barriers(page, [".kv-widget"]), []);
  }, { width }));
}

test("without scripts both runs are a picture, and every step stands in words", () => on("pair.html", async (page) => {
  assert.ok(await page.locator("figure svg").isVisible());
  assert.match(await page.textContent("figure svg"), /vLLM.*≠.*SGLang.*≠/);
  assert.match(await page.textContent(".kv-table"), /2 ≠/);
  if (shots) await page.screenshot({ path: join(shots, "players-static.png"), fullPage: true });
}, { scripts: false }));
