// Drawing on a canvas, in the palette's colours and the page's type.

const INKS = ["paper", "text", "soft", "waiting", "blocked-outside", "prefill", "prefill-text", "decode",
  "on-decode", "on-prefill", "preempted", "draining", "done", "done-ring", "hairline", "hairline-strong", "track"];

/** The palette and the type as they stand now, at an element. */
export function lookOf(element) {
  const style = getComputedStyle(element);
  const ink = Object.fromEntries(INKS.map((name) => [name, style.getPropertyValue(`--kv-${name}`).trim()]));
  return { ink: { ...ink, idle: ink.decode }, font: style.fontFamily, hatches: new Map() };
}

/** A canvas of a size in CSS pixels, cleared, with the few verbs that the player draws with. */
export function penOn(canvas, width, height, look) {
  const scale = Math.max(1, globalThis.devicePixelRatio || 1);
  const wide = Math.round(width * scale), high = Math.round(height * scale);
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
  const to = canvas.getContext("2d");
  to.setTransform(scale, 0, 0, scale, 0, 0);
  to.globalAlpha = 1;
  to.clearRect(0, 0, width, height);
  return {
    to,
    ink: look.ink,
    fill(x, y, w, h, ink, alpha = 1) {
      to.globalAlpha = alpha;
      to.fillStyle = look.ink[ink] ?? ink;
      to.fillRect(x, y, w, h);
      to.globalAlpha = 1;
    },
    box(x, y, w, h, round) {
      to.beginPath();
      to.roundRect(x, y, w, h, Math.max(0, Math.min(round, w / 2)));
    },
    line(x0, y0, x1, y1, ink, width = 1, dash = []) {
      to.strokeStyle = look.ink[ink];
      to.lineWidth = width;
      to.setLineDash(dash);
      to.beginPath();
      to.moveTo(x0, y0);
      to.lineTo(x1, y1);
      to.stroke();
      to.setLineDash([]);
    },
    dot(x, y, radius, ink, ring) {
      to.beginPath();
      to.arc(x, y, radius, 0, 2 * Math.PI);
      to.fillStyle = look.ink[ink];
      to.fill();
      if (!ring) return;
      to.strokeStyle = look.ink[ring];
      to.lineWidth = 1;
      to.stroke();
    },
    /** Text on a baseline; `halo` keeps it readable over what it crosses. */
    text(words, x, y, { size = 12, ink = "soft", weight = 400, align = "left", halo = false, base = "alphabetic" } = {}) {
      to.font = `${weight} ${size}px ${look.font}`;
      to.textAlign = align;
      to.textBaseline = base;
      if (halo) {
        Object.assign(to, { strokeStyle: look.ink.paper, lineWidth: 3.5, lineJoin: "round" });
        to.strokeText(words, x, y);
      }
      to.fillStyle = look.ink[ink] ?? ink;
      to.fillText(words, x, y);
    },
    wide(words, size, weight = 400) {
      to.font = `${weight} ${size}px ${look.font}`;
      return to.measureText(words).width;
    },
    /** Diagonal strokes of a colour over a tint of it. */
    hatch(ink, tint = 0.08) {
      const key = `${ink} ${tint} ${scale}`;
      if (!look.hatches.has(key)) {
        const pattern = to.createPattern(strokes(look.ink[ink], tint, scale), "repeat");
        pattern.setTransform(new DOMMatrix().scale(1 / scale));
        look.hatches.set(key, pattern);
      }
      return look.hatches.get(key);
    },
  };
}

const SIDE = 7;

function strokes(colour, tint, scale) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = SIDE * scale;
  const to = tile.getContext("2d");
  to.scale(scale, scale);
  to.globalAlpha = tint;
  to.fillStyle = colour;
  to.fillRect(0, 0, SIDE, SIDE);
  to.globalAlpha = 0.62;
  to.strokeStyle = colour;
  to.lineWidth = 1.3;
  to.beginPath();
  for (const shift of [-SIDE, 0, SIDE]) {
    to.moveTo(shift - 1, SIDE + 1);
    to.lineTo(shift + SIDE + 1, -1);
  }
  to.stroke();
  return tile;
}

/** Words cut so that they fit. */
export function fitting(pen, words, room, size, weight) {
  let cut = words;
  while (cut.length > 1 && pen.wide(cut, size, weight) > room) cut = cut.slice(0, -1);
  return cut;
}
