// A static server for the built book, and a real browser to read it with.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join, normalize, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const BOOK = process.env.BOOK ?? fileURLToPath(new URL("../../_build/html", import.meta.url));

export const PYTHON =
  process.env.KVSCHED_PYTHON ?? fileURLToPath(new URL("../../.venv/bin/python", import.meta.url));

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf-8");

const TYPES = {
  ".css": "text/css", ".html": "text/html; charset=utf-8", ".js": "text/javascript",
  ".json": "application/json", ".mjs": "text/javascript", ".png": "image/png",
  ".svg": "image/svg+xml", ".wasm": "application/wasm", ".woff2": "font/woff2",
};
const BROWSERS = [
  "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** What a piece of Python prints, as JSON. No such Python is an error. */
export function python(...lines) {
  if (!existsSync(PYTHON)) throw new Error(`no Python at ${PYTHON}; run make setup or set KVSCHED_PYTHON=PATH`);
  const code = ["import json", ...lines.slice(0, -1), `print(json.dumps(${lines.at(-1)}))`].join("\n");
  return JSON.parse(execFileSync(PYTHON, ["-c", code], { encoding: "utf-8", maxBuffer: 1e8 }));
}

/** Serve the built book, or another folder, on a free port of this machine; {url, close}.
    A path for which `missing(path)` is true is not found. */
export async function serve(root = BOOK, missing = () => false) {
  if (!existsSync(join(root, "index.html"))) {
    throw new Error(`no book at ${root}; build it first: make book`);
  }
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://x").pathname));
    const file = join(root, path.endsWith(sep) ? join(path, "index.html") : path);
    try {
      if (missing(path)) throw new Error("as asked");
      const body = await readFile(file);
      response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

/** Start the browser. None found is an error: these tests are never skipped. */
export async function launch() {
  const executablePath = process.env.CHROMIUM ?? BROWSERS.find(existsSync);
  if (!executablePath) {
    throw new Error(`no browser among ${BROWSERS.join(", ")}; install Chromium or set CHROMIUM=PATH`);
  }
  return chromium.launch({ executablePath, headless: true, args: FLAGS });
}

/** Every page of the book, as a path under its root; pages that only redirect are left out, and
    JupyterLite, which has tests of its own. */
export function pages() {
  return readdirSync(BOOK, { recursive: true })
    .filter((name) => name.endsWith(".html") && !name.startsWith("_") && !name.startsWith("lite"))
    .filter((name) => !/http-equiv="refresh"/i.test(readFileSync(join(BOOK, name), "utf-8")))
    .map((name) => relative(BOOK, join(BOOK, name)).split(sep).join("/"))
    .sort();
}

/** What axe-core finds wrong in the elements that these selectors choose, but for rules known. */
export async function barriers(page, selectors, known = []) {
  await page.evaluate(AXE);
  return page.evaluate(async ([include, skipped]) => {
    const { violations } = await globalThis.axe.run({ include }, { resultTypes: ["violations"] });
    return violations.filter(({ id }) => !skipped.includes(id)).map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
  }, [selectors.map((selector) => [selector]), known]);
}

/** Open a page and note everything that went wrong: errors, failed requests, other hosts. */
export async function open(context, base, path) {
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(`page error: ${error.message}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrong.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(base) && !url.startsWith("data:")) wrong.push(`asks another host: ${url}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) wrong.push(`${response.status()}: ${response.url()}`);
  });
  await page.goto(base + path, { waitUntil: "load" });
  return { page, wrong };
}

/** Run `body` on a fresh page; whatever went wrong on it fails the test. */
export async function visit(browser, base, path, body, options = {}) {
  const context = await browser.newContext(options);
  try {
    const { page, wrong } = await open(context, base, path);
    await body(page);
    assert.deepEqual(wrong, []);
  } finally {
    await context.close();
  }
}
