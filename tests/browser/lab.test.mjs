// The same widgets in JupyterLab, by keyboard: there a kernel answers.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { barriers, launch, python, PYTHON } from "./harness.mjs";

const PATIENCE = { timeout: 240_000 };
const CELLS = [
  ["from kvsched.widgets import predict, widget\n", 'widget("tour")'],
  ['widget("states", selection={"status": "RUNNING"})'],
  ['predict("How many?", answer=4)'],
];

let lab, browser, home;
before(async () => {
  home = mkdtempSync(join(tmpdir(), "kvsched-lab-"));
  const folder = (name) => { mkdirSync(join(home, name)); return join(home, name); };
  const cells = CELLS.map((source, i) => ({
    cell_type: "code", id: `c${i}`, metadata: {}, execution_count: null, outputs: [], source,
  }));
  const kernelspec = { name: "python3", display_name: "Python 3", language: "python" };
  writeFileSync(join(folder("work"), "try.ipynb"), JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: { kernelspec }, cells }));
  const runtime = folder("runtime");
  const env = {
    ...process.env, JUPYTER_RUNTIME_DIR: runtime, JUPYTER_CONFIG_DIR: folder("config"),
    JUPYTER_DATA_DIR: folder("data"), IPYTHONDIR: folder("ipython"),
  };
  const options = ["--no-browser", "--allow-root", "--port=0", "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"];
  lab = spawn(PYTHON, ["-m", "jupyterlab", ...options, `--ServerApp.root_dir=${join(home, "work")}`], { env, stdio: "ignore" });
  lab.url = await address(runtime);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  lab?.kill();
  if (home) rmSync(home, { recursive: true, force: true, maxRetries: 5 });
});

/** Where the server listens, from the file that it writes when it does. */
async function address(runtime) {
  for (let i = 0; i < 600; i++) {
    const file = readdirSync(runtime).find((name) => /^jpserver-\d+\.json$/.test(name));
    if (file) {
      const { url, token } = JSON.parse(readFileSync(join(runtime, file), "utf-8"));
      return `${url}lab/tree/try.ipynb?token=${token}`;
    }
    if (lab.exitCode !== null) throw new Error(`JupyterLab ended with ${lab.exitCode}`);
    await new Promise((done) => setTimeout(done, 200));
  }
  throw new Error("JupyterLab did not start");
}

test("slider, steps, events and prediction by keyboard", async () => {
  assert.ok(existsSync(PYTHON));
  const page = await browser.newPage({ viewport: { width: 1280, height: 1400 } });
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(error.message));
  await page.goto(lab.url);
  await page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").waitFor({ ...PATIENCE, state: "attached" });
  await page.locator(".jp-Notebook .jp-Cell").first().click(PATIENCE);
  await page.getByText("Run", { exact: true }).click();
  await page.getByText("Run All Cells", { exact: true }).click();
  const [tour, states] = [page.locator(".kv-w").nth(0), page.locator(".kv-w").nth(1)];
  await tour.waitFor(PATIENCE);
  await states.waitFor(PATIENCE);

  const sentence = (box) => box.locator(".kv-sentence:not(.kv-longest)").textContent();
  const here = python("from kvsched.views import find", "find('tour')(blocks=23)");
  await tour.locator("input[name=blocks]").focus();
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction((words) => document.querySelector(".kv-w .kv-summary").textContent === words, here.sentence, PATIENCE);
  await tour.locator(".kv-play").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await sentence(tour), here.steps[1].says);

  await states.locator("button[data-event=admit]").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const told = python("from kvsched.views.states import VIEW, answer", "answer(VIEW(), 'RUNNING', 'preempt')['says']");
  assert.ok((await sentence(states)).startsWith(told));

  const guess = page.locator(".kv-predict input");
  await guess.focus();
  await page.keyboard.type("3");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".kv-predict .kv-verdict").textContent(), "You said 3: 1 too low.");
  assert.ok(await page.locator(".kv-predict details p").isVisible());
  assert.ok(await guess.isDisabled());
  assert.deepEqual(await barriers(page, [".kv-w", ".kv-predict"]), []);
  if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, "jupyterlab.png") });
  assert.deepEqual(wrong, []);
});
