// What stands on the lanes in words: what was lost, what came back, how it ended.
import { counted, num } from "./run.mjs";

const SIZE = 12;

/** The marks of a lane at once, the labels to be drawn over or under the veil. */
export function labelsOf(pen, place, row, run, step) {
  const labels = [];
  let free = -Infinity; // labels of one lane do not touch
  row.lane.marks.forEach((mark, index) => {
    if (mark.step < place.from - 1 || mark.step >= place.to) return;
    const next = row.lane.marks.slice(index + 1).find(({ kind }) => kind === "lost");
    const made = MARKS[mark.kind](pen, place, row, { mark, next, run, step, free });
    for (const label of made) {
      labels.push({ ...label, past: mark.step <= step - (mark.kind === "end" ? 1 : 0) });
      if (label.until) free = label.until;
    }
  });
  return labels;
}

function lost(pen, place, row, { mark, run, free, step }) {
  const [tokens] = mark.rest, x = place.x(mark.step), labels = [];
  const top = row.base - (tokens / run.tallest) * row.high;
  pen.fill(x - 1, top - (row.open ? 1 : 0), row.open ? 3 : 2, row.base - top + 1, "preempted");
  if (!row.open) return labels;
  arrow(pen, x, top - 7);
  const back = row.lane.marks.find(({ kind, step: at }) => (kind === "back" || kind === "end") && at > mark.step);
  const until = Math.min(place.to, back ? back.step : run.count);
  const words = `out ${counted(until - mark.step, "step")}`;
  if ((until - mark.step) * place.wide > pen.wide(words, 11.5) + 14 && row.high > 30 && (until <= step + 1 || step >= mark.step)) {
    labels.push({ draw: () => pen.text(words, (x + place.x(until)) / 2 + 1, row.base - row.high / 2 + 3,
      { size: 11.5, align: "center", ink: "preempted", halo: true }) });
  }
  const text = place.many ? `−${num(tokens)}` : `−${counted(tokens, "token")}`, from = x + 7;
  if (from > free + 2) labels.push(label(pen, text, from, row.top - 5, "preempted"));
  return labels;
}

function arrow(pen, x, y) {
  const { to } = pen;
  to.fillStyle = pen.ink.preempted;
  to.beginPath();
  to.moveTo(x - 4.5, y);
  to.lineTo(x + 4.5, y);
  to.lineTo(x, y + 6.5);
  to.fill();
}

/** The longest of several wordings that ends before the next loss; inside the lane if need be. */
function back(pen, place, row, { mark, next, free }) {
  if (!row.open) return [];
  const [found, computed] = mark.rest, short = `+${num(found)}`, x = place.x(mark.step) + 1;
  const wordings = place.many ? [short]
    : place.narrow ? [`${short} from cache`, short]
      : [`${short} from cache, ${num(computed)} computed`, `${short} from cache`, short];
  const end = Math.min(next ? place.x(next.step) + 4 : Infinity, place.width);
  const text = wordings.find((words) => x + pen.wide(words, SIZE, 700) <= end);
  if (!text) return [];
  if (x > free + 2) return [label(pen, text, x, row.top - 5, "prefill-text")];
  const inside = x + place.wide + 4;
  if (row.high <= 30 || inside + pen.wide(text, SIZE, 700) > end) return [];
  return [{ draw: () => pen.text(text, inside, row.base - row.high / 2 + 4, { size: SIZE, weight: 700, ink: "on-decode" }) }];
}

/** A ringed dot for who is done, a cross for every other ending. */
function end(pen, place, row, { mark }) {
  const [word, tokens] = mark.rest, radius = row.open ? 3.5 : 2;
  const after = Math.max(mark.step + 1, row.lane.segments.at(-1).to), right = place.x(after);
  const x = right + radius + 1.5, y = row.base - radius;
  if (word === "done") pen.dot(x, y, radius, "done", "done-ring");
  else {
    pen.line(x - radius, y - radius, x + radius, y + radius, "text", 1.6);
    pen.line(x - radius, y + radius, x + radius, y - radius, "text", 1.6);
  }
  if (!row.open) return [];
  const text = `${word}, ${counted(tokens, "token")} out`;
  const inside = x + 8 + pen.wide(text, 11.5) <= place.width;
  return [{ draw: () => (inside
    ? pen.text(text, x + 8, row.base - 0.5, { size: 11.5, halo: true })
    : pen.text(text, Math.min(place.width, right), row.top - 4, { size: 11.5, align: "right", halo: true })) }];
}

const MARKS = { lost, back, end };

function label(pen, words, x, y, ink) {
  return {
    until: x + pen.wide(words, SIZE, 700),
    draw: () => pen.text(words, x, y, { size: SIZE, weight: 700, ink, halo: true }),
  };
}
