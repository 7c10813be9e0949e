// What the reader changed stands in the page's address, as `#widget.key=value&…`, so that a link
// shows a colleague the same picture. A plain `#section` is left alone.

/** `{widget: {key: text}}` of a fragment; null if the fragment holds no state. */
export function read(fragment) {
  const text = fragment.replace(/^#/, "");
  if (!/^[\w-]+\.\w+=/.test(text)) return null;
  const found = {};
  for (const [path, value] of new URLSearchParams(text)) {
    const dot = path.lastIndexOf(".");
    if (dot > 0) (found[path.slice(0, dot)] ??= {})[path.slice(dot + 1)] = value;
  }
  return found;
}

/** The fragment that says how each widget differs from its first state; empty if none does. */
export function write(widgets) {
  const entries = [];
  for (const { name, first, state } of widgets) {
    for (const part of ["params", "selection"]) {
      for (const [key, value] of Object.entries(state[part])) {
        if (value !== first[part][key]) entries.push([`${name}.${key}`, String(value)]);
      }
    }
  }
  return entries.length ? `#${new URLSearchParams(entries)}` : "";
}

/** Parameters and selection of a widget at an address, with the types its first state has. */
export function goal(first, texts) {
  const typed = (part) => Object.fromEntries(
    Object.entries(first[part]).map(([key, value]) => [key, key in texts ? like(value, texts[key]) : value]));
  return { params: typed("params"), selection: typed("selection") };
}

function like(model, text) {
  if (typeof model === "number") return Number.isFinite(Number(text)) ? Number(text) : model;
  return typeof model === "boolean" ? text === "true" : text;
}
