// Small helpers for drawing.

const FONT = '11px system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

// A canvas as wide as its place on the page, sharp on any screen; its units are CSS pixels.
function fitted(canvas, height) {
  const width = Math.max(40, Math.round(canvas.clientWidth));
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

function cut(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  const letters = Array.from(text);
  while (letters.length && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return letters.length ? `${letters.join("")}…` : "";
}

const colourOf = (name) => getComputedStyle(document.body).getPropertyValue(name);

// Calls a function once before the next frame, however often it is asked for.
const waiting = new Set();
function soon(paint) {
  if (waiting.has(paint)) return;
  waiting.add(paint);
  requestAnimationFrame(() => {
    waiting.delete(paint);
    paint();
  });
}
