// Which test binds: the figure's columns are steps; below it the tests of one step, both sides.
import { el } from "./dom.mjs";
import { filled } from "./player/decode.mjs";
import { longestOf, sentence } from "./player/sentence.mjs";
import { testPanel } from "./player/tests.mjs";
import { stepper } from "./stepper.mjs";

export function admission(host) {
  let data, says, panels, figure;
  const last = () => host.data.held.length - 1;
  const now = () => Math.min(host.selection.step, last());
  const go = (step, quiet) => host.select({ step }, quiet);
  const bar = stepper({ count: () => last() + 1, now, go });
  const change = (words, by) => el("button", { type: "button", onclick: () => jump(by) }, words);
  const tests = testPanel();
  const box = el("div", { class: "kv-player" });
  bar.box.append(change("[ previous change", -1), change("next change ]", 1));

  /** To the next step, in a direction, in which another test begins or ceases to refuse. */
  function jump(by) {
    const edges = data.binding.flatMap(([, first, steps]) => [first, first + steps]).filter((step) => step <= last());
    const step = by > 0 ? edges.find((edge) => edge > now()) : edges.findLast((edge) => edge < now());
    if (step !== undefined) go(step);
  }
  function hit({ clientX }) {
    const { left, right } = figure.querySelector(".kv-cursor").dataset;
    const frame = figure.getBoundingClientRect(), x = ((clientX - frame.left) / frame.width) * figure.viewBox.baseVal.width;
    const step = Math.floor(((x - left) / (right - left)) * (last() + 1));
    if (step >= 0 && step <= last()) go(step);
  }
  return {
    update() {
      if (data !== host.data) {
        data = host.data;
        [says, panels] = [filled(data.says), filled(data.panels)];
      }
      if (figure !== host.figure) {
        figure = host.figure;
        figure.addEventListener("click", hit);
        box.replaceChildren(figure, bar.box, tests.box);
        host.body.replaceChildren(box);
        host.reserve(longestOf(says, host.body.clientWidth));
      }
      const cursor = figure.querySelector(".kv-cursor"), { left, right } = cursor.dataset;
      cursor.setAttribute("x", Number(left) + ((right - left) * now()) / (last() + 1));
      bar.update();
      tests.draw(panels[now()], data.waiting[now()]);
      host.say(...sentence(says[now()], host.body.clientWidth));
    },
    key(event) {
      if (event.key !== "[" && event.key !== "]") return bar.key(event);
      jump(event.key === "]" ? 1 : -1);
      return true;
    },
    end: bar.end,
  };
}
