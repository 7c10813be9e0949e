// Every page, in light and dark, wide and on a phone: no error, no other host, nothing cut off.
// SCREENSHOTS=DIR keeps a picture of each.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { barriers, launch, open, pages, serve } from "./harness.mjs";

const VIEWS = [
  { name: "light", colorScheme: "light", viewport: { width: 1280, height: 900 } },
  { name: "dark", colorScheme: "dark", viewport: { width: 1280, height: 900 } },
  { name: "phone", colorScheme: "light", viewport: { width: 390, height: 844 } },
  { name: "phone-dark", colorScheme: "dark", viewport: { width: 390, height: 844 } },
];
// What the theme, pandas and the bibliography do; everything else is ours to keep.
const NOT_OURS = [
  "aria-allowed-role", "aria-deprecated-role", "aria-required-children", "empty-table-header",
  "label-content-name-mismatch", "region",
];
const shots = process.env.SCREENSHOTS;
if (shots) mkdirSync(shots, { recursive: true });

let server, browser;
before(async () => {
  server = await serve();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server?.close();
});

for (const { name, ...options } of VIEWS) {
  describe(name, () => {
    for (const path of pages()) {
      test(path, async () => {
        const context = await browser.newContext(options);
        try {
          const { page, wrong } = await open(context, server.url, path);
          await page.waitForTimeout(200);
          const wide = await page.evaluate(() => {
            const root = document.documentElement;
            return [root.scrollWidth, root.clientWidth];
          });
          const theme = await page.evaluate(() => document.documentElement.dataset.theme);
          const unnamed = await page.evaluate(() =>
            [...document.querySelectorAll("main img")]
              .filter((img) => !img.alt || /\.(png|svg|jpe?g)$/.test(img.alt))
              .map((img) => img.src));
          if (shots) {
            const file = join(shots, `${path.replaceAll("/", "-")}-${name}.png`);
            await page.screenshot({ path: file, fullPage: true });
          }
          assert.deepEqual(wrong, []);
          assert.deepEqual(await barriers(page, ["html"], NOT_OURS), [], "no accessibility barrier");
          assert.ok(wide[0] <= wide[1], `scrolls sideways: ${wide[0]} > ${wide[1]}`);
          assert.equal(theme, options.colorScheme, "the page follows the system's theme");
          assert.deepEqual(unnamed, [], "every image has alt text");
        } finally {
          await context.close();
        }
      });
    }
  });
}

describe("scripts off", () => {
  for (const path of pages().filter((name) => name !== "search.html")) {
    test(path, async () => {
      const context = await browser.newContext({ javaScriptEnabled: false });
      try {
        const { page, wrong } = await open(context, server.url, path);
        assert.deepEqual(wrong, []);
        assert.ok(await page.locator("article h1").first().isVisible(), "the title is visible");
        for (const math of await page.locator("main math").all()) {
          assert.ok((await math.boundingBox()).width > 0, "a formula has a size");
        }
      } finally {
        await context.close();
      }
    });
  }
});
