// The prediction's script: a button that commits, and the gap between guess and answer.
import { el } from "./dom.mjs";

/** In a kernel's front end: the same HTML as on a page, made live. The kernel is never asked. */
export function render({ model, el: root }) {
  root.innerHTML = model.get("html");
  predicting(root.firstElementChild);
}

export function predicting(box) {
  const { kind, answer, unit } = box.dataset;
  const fold = box.querySelector("details");
  const inputs = [...box.querySelectorAll("input")];
  const verdict = el("p", { class: "kv-verdict", role: "status" });
  const button = el("button", { type: "button", class: "kv-commit", onclick: commit }, "Commit");
  box.classList.add("is-live");
  fold.before(button, verdict);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches("input")) return;
    event.preventDefault(); // else the same key closes the fold that it opened
    commit();
  });

  function commit() {
    const guess = kind === "number" ? inputs[0].value : inputs.find((input) => input.checked)?.value;
    if (!guess) {
      verdict.textContent = kind === "number" ? "Enter a number first." : "Pick one first.";
      return inputs[0].focus();
    }
    for (const input of inputs) input.disabled = true;
    button.remove();
    box.classList.add("is-committed");
    fold.open = true;
    verdict.textContent = kind === "number" ? gap(Number(guess), Number(answer), unit) : match(guess, answer);
    fold.querySelector("summary").focus();
  }
}

export function gap(guess, answer, unit) {
  const said = `You said ${words(guess)}${unit && ` ${unit}`}`;
  if (words(guess) === words(answer)) return `${said}: exactly.`;
  return `${said}: ${words(Math.abs(guess - answer))} too ${guess < answer ? "low" : "high"}.`;
}

const words = (number) => number.toLocaleString("en-US", { maximumSignificantDigits: 12 });

export const match = (guess, answer) =>
  guess === answer ? `You said “${guess}”: so it is.` : `You said “${guess}”; it is “${answer}”.`;
