// Python on a page: one worker for all its widgets, loaded when first needed or nearly so.

const LOADING = "Loading Python, about 6 MB, once …";

/** `ask(question, onnote)` resolves to a reply or, if Python is not to be had, to `{failed}`. */
export function runtime(base) {
  const waiting = new Map();
  let worker = null, ready = false, serial = 0;

  function fail(why) {
    worker?.terminate();
    worker = null;
    ready = false;
    for (const { done } of waiting.values()) done({ failed: `Python did not load: ${why}.` });
    waiting.clear();
  }
  function start() {
    if (worker) return;
    worker = new Worker(new URL("kvsched-worker.mjs", base), { type: "module" });
    worker.onerror = (event) => fail(event.message || "its file is missing or blocked");
    worker.onmessage = ({ data }) => {
      if (data.failed) return fail(data.failed);
      if (data.ready) { ready = true; return; }
      waiting.get(data.serial)?.done(JSON.parse(data.reply));
      waiting.delete(data.serial);
    };
  }
  return {
    warm: start,
    ask(question, onnote) {
      return new Promise((done) => {
        waiting.set(++serial, { done });
        start();
        if (!ready) onnote({ text: LOADING });
        worker.postMessage({ serial, question: JSON.stringify(question) });
      });
    },
  };
}
