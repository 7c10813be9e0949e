// The same widgets in JupyterLite, by keyboard: a kernel in the browser, and no other host.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { barriers, BOOK, launch, python, serve } from "./harness.mjs";

const PATIENCE = { timeout: 240_000 };
const OURS = [".kv-w", ".kv-predict"];

let server, browser;
before(async () => {
  const settings = join(BOOK, "lite", "jupyter-lite.json");
  if (!existsSync(settings)) throw new Error(`no JupyterLite at ${settings}; build it: make lite`);
  server = await serve();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  server?.close();
});

/** Open a notebook, run all its cells, and hand its page to `body`. */
async function on(path, body) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 1400 } });
  const wrong = [];
  context.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(server.url)) wrong.push(`asks another host: ${request.url()}`);
  });
  try {
    const page = await context.newPage();
    page.on("pageerror", (error) => wrong.push(`page error: ${error.message}`));
    page.on("console", (message) => {
      const iconOfTheHost = message.location().url.endsWith("/favicon.ico");
      if (message.type() === "error" && !iconOfTheHost) wrong.push(`console: ${message.text()}`);
    });
    const began = Date.now();
    await page.goto(`${server.url}lite/lab/index.html?path=${path}`);
    await page.locator(".jp-Notebook .jp-Cell").first().click(PATIENCE);
    await page.getByText("Run", { exact: true }).click();
    await page.getByText("Run All Cells", { exact: true }).click();
    await page.locator(".kv-w").first().waitFor(PATIENCE);
    console.log(`${path} in JupyterLite: first widget after ${((Date.now() - began) / 1000).toFixed(1)} s`);
    await body(page);
    assert.equal(await page.locator(".jp-Notebook .jp-RenderedText[data-mime-type*=error]").count(), 0, "a cell failed");
    assert.deepEqual(await barriers(page, OURS), []);
    if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `lite-${path.replaceAll("/", "-")}.png`) });
    assert.deepEqual(wrong, []);
  } finally {
    await context.close();
  }
}

const label = (view) => python("from kvsched.views import find", `find("${view}").label`);
const widget = (page, view) => page.getByRole("group", { name: label(view), exact: true });
const sentence = (box) => box.locator(".kv-sentence:not(.kv-longest)").textContent();
const summary = (box, words) => box.locator(".kv-summary", { hasText: words }).waitFor(PATIENCE);

test("every registered view is live, and says what it says here", () => on("widgets.ipynb", async (page) => {
  const views = python("from kvsched.views import VIEWS, find", "{name: find(name)()['sentence'] for name in VIEWS}");
  for (const [view, words] of Object.entries(views)) await summary(widget(page, view), words);
  assert.equal(await page.locator(".kv-w").count(), Object.keys(views).length);

  const tour = widget(page, "tour");
  const here = python("from kvsched.views import find", "find('tour')(blocks=23)");
  await tour.locator("input[name=blocks]").focus();
  await page.keyboard.press("ArrowLeft");
  await summary(tour, here.sentence);
  await tour.locator(".kv-play").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await sentence(tour), here.steps[1].says);

  const states = widget(page, "states");
  await states.locator("select").focus();
  await page.keyboard.type("RUN");
  await states.locator("button[data-event=preempt]").focus();
  await page.keyboard.press("Enter");
  const told = python("from kvsched.views.states import VIEW, answer", "answer(VIEW(), 'RUNNING', 'preempt')['says']");
  assert.ok((await sentence(states)).startsWith(told));
}));

test("a chapter's page offers its copy; it reads the recordings, and a guess is committed", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${server.url}book/05_preemption.html`);
  const offered = new URL(await page.locator("a.btn-lite-button").getAttribute("href"), page.url()).href;
  assert.equal(offered, `${server.url}lite/lab/index.html?path=book/05_preemption.ipynb`);
  const answer = Number(await page.locator(".kv-predict[data-kind=number]").first().getAttribute("data-answer"));
  await context.close();

  await on("book/05_preemption.ipynb", async (lab) => {
    await lab.waitForFunction(() => ![...document.querySelectorAll(".jp-InputPrompt")].some((prompt) => prompt.textContent.includes("*")), null, PATIENCE);
    const question = lab.locator(".kv-predict[data-kind=number]").first();
    assert.equal(Number(await question.getAttribute("data-answer")), answer);
    await question.locator("input").focus();
    await lab.keyboard.type(String(answer + 1));
    await lab.keyboard.press("Enter");
    assert.match(await question.locator(".kv-verdict").textContent(), /: 1 too high\.$/);
    assert.ok(await question.locator("details p").isVisible());
  });
});
