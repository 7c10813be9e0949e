// Python in a worker: the runtime and the package come from this folder, and nothing from outside.
const base = new URL(".", import.meta.url);
const fail = (error) => postMessage({ failed: String(error?.message ?? error).slice(-300) });

// Pyodide waits for ever if this fails, so the failure is told here.
const instantiate = WebAssembly.instantiateStreaming;
WebAssembly.instantiateStreaming = async (...given) => {
  try {
    return await instantiate.apply(WebAssembly, given);
  } catch (error) {
    fail(error);
    throw error;
  }
};

const ready = (async () => {
  const { loadPyodide } = await import(new URL("pyodide/pyodide.mjs", base).href);
  const python = await loadPyodide({ indexURL: new URL("pyodide/", base).href });
  const answer = await fetch(new URL("kvsched.zip", base));
  if (!answer.ok) throw new Error(`kvsched.zip: ${answer.status}`);
  python.unpackArchive(await answer.arrayBuffer(), "zip", { extractDir: "/lib/kvsched" });
  const run = python.runPython(`
import json, sys
sys.path.insert(0, "/lib/kvsched")
from kvsched.views import reply
lambda question: json.dumps(reply(**json.loads(question)), ensure_ascii=False)
`);
  postMessage({ ready: true });
  return run;
})();
ready.catch(fail);

onmessage = async ({ data: { serial, question } }) => {
  const run = await ready;
  try {
    postMessage({ serial, reply: run(question) });
  } catch (error) {
    const last = String(error.message ?? error).trim().split("\n").at(-1);
    postMessage({ serial, reply: JSON.stringify({ error: last }) });
  }
};
