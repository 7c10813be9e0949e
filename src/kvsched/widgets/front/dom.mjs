// Elements in one call, and what the reader's system asks for.

/** An element with attributes and children; a function given as onX listens to X. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** The SVG element that a view's figure is, as text. */
export function parsed(figure) {
  const holder = document.createElement("template");
  holder.innerHTML = figure;
  return holder.content.firstElementChild;
}

/** Does the reader ask for less motion? */
export const calm = () => globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches ?? false;
