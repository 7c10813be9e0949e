// Every view, in the book's own Python and in ours: the same bytes.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { BOOK, PYTHON } from "./harness.mjs";

const STATIC = join(BOOK, "_static");

test("every view says the same in Pyodide as in CPython", async () => {
  const runtime = join(STATIC, "pyodide", "pyodide.mjs");
  if (!existsSync(runtime)) throw new Error(`no Pyodide at ${runtime}; build the book: make book`);
  const { loadPyodide } = await import(pathToFileURL(runtime));
  const python = await loadPyodide();
  const archive = new Uint8Array(readFileSync(join(STATIC, "kvsched.zip")));
  python.unpackArchive(archive, "zip", { extractDir: "/lib/kvsched" });
  const there = python.runPython(`
import sys
sys.path.insert(0, "/lib/kvsched")
from kvsched.views import parity
"\\n".join(parity())
`);
  const here = execFileSync(PYTHON, ["-m", "kvsched.views"], { encoding: "utf-8", maxBuffer: 1e8 });
  const [ours, theirs] = [here.trimEnd().split("\n"), there.split("\n")];
  assert.equal(theirs.length, ours.length);
  ours.forEach((line, i) => assert.ok(theirs[i] === line, `differs: ${line.slice(0, 120)} …`));
  console.log(`parity: ${ours.length} replies of ${new Set(ours.map((l) => JSON.parse(l).view)).size} views are equal`);
});
