// Chapter 7's widget on its page: another profile, chosen by keyboard, is computed in the page and called what it is.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, python, serve, visit } from "./harness.mjs";

const PATIENCE = { timeout: 120_000 };
const BOX = "#widget-measured", SUMMARY = `${BOX} .kv-summary`;

let server, browser;
before(async () => {
  server = await serve();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server?.close();
});

test("an arrow key picks another profile: its curves, its words, its kind", () => visit(browser, server.url, "book/07_measure.html", async (page) => {
  const says = (profile) => python("from kvsched.views import find", `find("measured")(profile="${profile}")["sentence"]`);
  const select = page.locator(`${BOX} select[name=profile]`);
  assert.equal(await select.inputValue(), "h100-sxm");
  for (const [key, profile, kind] of [["ArrowUp", "example-cpu", "measured on a CPU, no GPU"], ["End", "h200", "published, not measured here"]]) {
    await select.focus();
    await page.keyboard.press(key);
    const wanted = says(profile);
    await page.waitForFunction(([where, words]) => document.querySelector(where).textContent === words, [SUMMARY, wanted], PATIENCE);
    assert.ok(wanted.includes(kind), wanted);
    assert.ok((await page.textContent(`${BOX} svg`)).includes(kind));
  }
}));
