// The parameters of a view as native controls: a slider, a menu, a switch, a line of text.
import { el } from "./dom.mjs";

/** A fieldset that calls `change(name, value)`; `show(params)` sets it, `disable()` turns it off. */
export function controls(specs, params, change) {
  const setters = {};
  const box = el("fieldset", { class: "kv-controls" }, el("legend", { class: "kv-hidden" }, "Parameters"));
  for (const spec of specs) {
    const { row, set } = MAKERS[spec.kind](spec, (value) => change(spec.name, value));
    setters[spec.name] = set;
    box.append(row);
  }
  const show = (values) => {
    for (const [name, value] of Object.entries(values)) setters[name]?.(value);
  };
  show(params);
  return { box, show, disable: () => { box.disabled = true; } };
}

const MAKERS = { int: slider, float: slider, choice: menu, switch: toggle, text: line };

function slider(spec, change) {
  const { name, min, max, step, unit } = spec;
  const output = el("output", { class: "kv-value" });
  const words = (value) => (unit ? `${value} ${unit}` : `${value}`);
  const input = el("input", { type: "range", name, min, max, step, oninput: () => {
    set(Number(input.value));
    change(Number(input.value));
  } });
  const set = (value) => {
    input.value = value;
    output.textContent = words(value);
    input.setAttribute("aria-valuetext", words(value));
  };
  return { row: el("label", { class: "kv-control" }, el("span", {}, spec.label), input, output), set };
}

function menu(spec, change) {
  const options = spec.choices.map((word) => el("option", {}, word));
  const input = el("select", { name: spec.name, onchange: () => change(input.value) }, ...options);
  const set = (value) => { input.value = value; };
  return { row: el("label", { class: "kv-control" }, el("span", {}, spec.label), input), set };
}

function toggle(spec, change) {
  const input = el("input", { type: "checkbox", name: spec.name, onchange: () => change(input.checked) });
  const set = (value) => { input.checked = value; };
  return { row: el("label", { class: "kv-control" }, el("span", {}, spec.label), input), set };
}

function line(spec, change) {
  const input = el("input", { type: "text", name: spec.name, maxlength: spec.longest, spellcheck: "false", autocomplete: "off", onchange: () => change(input.value) });
  const set = (value) => { input.value = value; };
  return { row: el("label", { class: "kv-control is-text" }, el("span", {}, spec.label), input), set };
}
