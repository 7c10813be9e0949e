// Questions to Python, the same in every home: one is out at a time, and of those that come
// meanwhile only the newest is kept.

/** `want(question)` asks now or next; `again()` repeats the last; `busy()` while one is out. */
export function asking(model) {
  let out = null, wish = null, last = null;
  const send = () => {
    last = wish;
    wish = null;
    out = `${Date.now()}-${Math.random()}`;
    model.set("ask", { serial: out, ...last });
    model.save_changes();
  };
  const answered = () => {
    if (model.get("reply").serial !== out) return;
    out = null;
    if (wish) send();
  };
  model.on("change:reply", answered);
  return {
    want(question) {
      wish = question;
      if (out === null) send();
    },
    again() {
      if (out === null && last) this.want(last);
    },
    busy: () => out !== null,
    end: () => model.off("change:reply", answered),
  };
}
