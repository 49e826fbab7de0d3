// The matrix of the chosen head, whole or between the chosen tokens; it zooms and moves.

const matrixElement = document.getElementById("matrix");
const picture = document.createElement("canvas"); // one pixel an entry, or one a block
const SMALLEST = 6; // entries on the side of the closest view
let frame = null; // where the cells lie on the canvas, from the last time it was drawn
let cross = null; // [row, column] pointed at, as places in the part shown

const partCount = () => (state.part === "chosen" ? CHOSEN.length : COUNT);
const tokenOf = (place) => (state.part === "chosen" ? CHOSEN[place] : place);

function preparePicture() {
  const { data } = state;
  if (!data) return;
  if (state.part === "whole" && !META.dense) {
    paintLevels(picture, data.image, ...META.image);
    state.most = data.head.most;
    return;
  }
  const side = partCount();
  state.most = data.exact.reduce((a, b) => Math.max(a, b), 0);
  paintLevels(picture, levelsOf(data.exact, state.most), side, side);
}

function showAll() {
  move(0, 0, partCount());
}

// A zoom keeps the place (0..1 of the view) still; the view never leaves the matrix.
function zoom(factor, x = 0.5, y = 0.5) {
  const { row, column, side } = state.window;
  const least = Math.min(SMALLEST, partCount());
  const next = Math.min(partCount(), Math.max(least, side * factor));
  move(row + y * (side - next), column + x * (side - next), next);
}

function move(row, column, side = state.window.side) {
  const last = partCount() - side;
  const within = (value) => Math.min(last, Math.max(0, value));
  state.window = { row: within(row), column: within(column), side };
  // A finger moves the matrix where it is zoomed, else the page.
  matrixElement.style.touchAction = last > 0 ? "none" : "";
  soon(paintMatrix);
}

// Zoomed in on a long text, cells are drawn one by one and the exactly known ones stand out.
const apart = () => state.part === "whole" && !META.dense && frame.cell >= 4;

function paintMatrix() {
  if (!state.data) return;
  const width = Math.max(40, matrixElement.clientWidth);
  const { side, row, column } = state.window;
  matrixElement.getContext("2d").font = FONT;
  const named = (width - 60) / side >= 11;
  const margin = named ? Math.min(96, widestLabel(row, column, side) + 8) : 0;
  const size = width - margin;
  const { context } = fitted(matrixElement, width);
  frame = { left: margin, top: margin, size, cell: size / side };
  context.font = FONT;
  context.imageSmoothingEnabled = false;
  const grain = state.part === "whole" && !META.dense ? META.block : 1;
  context.save();
  context.beginPath();
  context.rect(margin, margin, size, size);
  context.clip();
  if (apart()) paintCells(context);
  else {
    context.drawImage(picture, column / grain, row / grain, side / grain, side / grain,
      margin, margin, size, size);
  }
  markHeld(context);
  context.restore();
  context.strokeStyle = META.roles[state.head.role].colour;
  context.lineWidth = 2;
  context.strokeRect(margin + 1, margin + 1, size - 2, size - 2);
  if (named) paintLabels(context);
  paintScale();
}

function places(from, side) {
  const list = [];
  const end = Math.min(partCount(), Math.ceil(from + side));
  for (let place = Math.floor(from); place < end; place++) list.push(place);
  return list;
}

function paintCells(context) {
  const { row, column, side } = state.window;
  const ramp = rampNow();
  const most = state.data.top.reduce((a, b) => Math.max(a, b), 0) || 1;
  for (const query of places(row, side)) {
    for (const key of places(column, side)) {
      const [value] = weight(state.data, query, key);
      const at = 3 * Math.round(255 * Math.sqrt(Math.min(1, value / most)));
      context.fillStyle = `rgb(${ramp[at]} ${ramp[at + 1]} ${ramp[at + 2]})`;
      const [x, y] = corner(query, key);
      context.fillRect(x, y, frame.cell + 0.5, frame.cell + 0.5);
    }
  }
}

const corner = (row, column) => [
  frame.left + (column - state.window.column) * frame.cell,
  frame.top + (row - state.window.row) * frame.cell,
];

function placeOf(token) {
  return state.part === "chosen" ? PLACE[token] : token;
}

// The token held in the text is a line here: a row of the matrix, or a column.
function markHeld(context) {
  const place = placeOf(state.token);
  context.strokeStyle = colourOf("--accent");
  context.lineWidth = 1;
  const { left, top, size, cell } = frame;
  if (place >= 0) {
    const [x, y] = corner(place, place);
    if (state.way === "at") context.strokeRect(left + 0.5, y - 0.5, size - 1, cell + 1);
    else context.strokeRect(x - 0.5, top + 0.5, cell + 1, size - 1);
  }
  if (!cross) return;
  const [x, y] = corner(...cross);
  context.fillStyle = colourOf("--cross");
  context.fillRect(left, y + cell / 2 - 0.5, size, 1);
  context.fillRect(x + cell / 2 - 0.5, top, 1, size);
  context.lineWidth = 2;
  context.strokeStyle = colourOf("--mark");
  const box = Math.max(cell, 6);
  context.strokeRect(x + cell / 2 - box / 2, y + cell / 2 - box / 2, box, box);
}

function widestLabel(row, column, side) {
  const context = matrixElement.getContext("2d");
  const names = [...places(row, side), ...places(column, side)].map((at) => TOKENS[tokenOf(at)]);
  return Math.max(16, ...names.map((name) => context.measureText(name).width));
}

function paintLabels(context) {
  const { left, top, cell } = frame;
  const { row, column, side } = state.window;
  const ink = colourOf("--ink");
  const soft = colourOf("--soft");
  const room = left - 8;
  context.textBaseline = "middle";
  const inside = (at) => at >= left - 1 && at + cell <= left + frame.size + 1;
  for (const place of places(row, side)) {
    const [, y] = corner(place, place);
    if (!inside(y)) continue;
    context.fillStyle = cross?.[0] === place || tokenOf(place) === state.token ? ink : soft;
    context.textAlign = "right";
    context.fillText(cut(context, TOKENS[tokenOf(place)], room), left - 5, y + cell / 2);
  }
  for (const place of places(column, side)) {
    const [x] = corner(place, place);
    if (!inside(x)) continue;
    context.fillStyle = cross?.[1] === place ? ink : soft;
    context.save();
    context.translate(x + cell / 2, top - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(cut(context, TOKENS[tokenOf(place)], room), 0, 0);
    context.restore();
  }
  context.textAlign = "left";
}

function paintScale() {
  const ramp = rampNow();
  const stops = [0, 51, 102, 153, 204, 255].map((level) => {
    const [r, g, b] = ramp.subarray(3 * level, 3 * level + 3);
    return `rgb(${r} ${g} ${b}) ${(100 * level) / 255}%`;
  });
  document.getElementById("ramp").style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
  const cellwise = apart();
  const most = cellwise
    ? state.data.top.reduce((a, b) => Math.max(a, b), 0) : state.most;
  document.getElementById("most-weight").textContent = number(most);
  const means = state.part === "whole" && !META.dense;
  const key = cellwise ? "page.scale-zoomed" : means ? "page.scale-mean" : "page.scale";
  document.getElementById("scale-says").textContent = say(key, { block: META.block });
}

// ---------------------------------------------------------------- pointing, dragging, keys

function cellAt(event) {
  const box = matrixElement.getBoundingClientRect();
  const column = (event.clientX - box.left - frame.left) / frame.cell + state.window.column;
  const row = (event.clientY - box.top - frame.top) / frame.cell + state.window.row;
  const { row: r, column: c, side } = state.window;
  if (row < r || column < c || row >= r + side || column >= c + side) return null;
  return [Math.floor(row), Math.floor(column)];
}

function pointAt(cell) {
  cross = cell;
  const said = document.getElementById("cell");
  if (cell && state.data) said.replaceChildren(...pairTold(tokenOf(cell[0]), tokenOf(cell[1])));
  else said.textContent = "";
  soon(paintMatrix);
}

let drag = null;
matrixElement.addEventListener("pointerdown", (event) => {
  if (!frame || event.button !== 0) return;
  drag = { x: event.clientX, y: event.clientY, from: { ...state.window }, moved: false };
  if (event.pointerType !== "touch") matrixElement.setPointerCapture(event.pointerId);
});

matrixElement.addEventListener("pointermove", (event) => {
  if (!frame || !state.data) return;
  if (drag && state.window.side < partCount()) {
    const [right, down] = [event.clientX - drag.x, event.clientY - drag.y];
    drag.moved ||= Math.hypot(right, down) > 4;
    if (drag.moved) {
      move(drag.from.row - down / frame.cell, drag.from.column - right / frame.cell);
      return;
    }
  }
  pointAt(cellAt(event));
});

matrixElement.addEventListener("pointerup", (event) => {
  const cell = frame && !drag?.moved ? cellAt(event) : null;
  drag = null;
  if (!cell || !state.data) return;
  pointAt(cell);
  hold(tokenOf(state.way === "at" ? cell[0] : cell[1]), true);
});

matrixElement.addEventListener("pointercancel", () => { drag = null; });
matrixElement.addEventListener("pointerleave", (event) => {
  if (event.pointerType !== "touch") pointAt(null);
});

matrixElement.addEventListener("wheel", (event) => {
  if (!frame || !(event.ctrlKey || event.metaKey)) return; // a plain wheel scrolls the page
  event.preventDefault();
  const box = matrixElement.getBoundingClientRect();
  const x = (event.clientX - box.left - frame.left) / frame.size;
  const y = (event.clientY - box.top - frame.top) / frame.size;
  zoom(Math.exp(event.deltaY / 200), x, y);
}, { passive: false });

matrixElement.addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  if (step) {
    const { row, column, side } = state.window;
    const [r, c] = cross ?? [Math.floor(row) - step[0], Math.floor(column) - step[1]];
    const within = (value) => Math.min(partCount() - 1, Math.max(0, value));
    const next = [within(r + step[0]), within(c + step[1])];
    const follow = (from, at) => (at < from ? at : at + 1 > from + side ? at + 1 - side : from);
    move(follow(row, next[0]), follow(column, next[1]));
    pointAt(next);
  } else if (event.key === "+" || event.key === "=") zoomToCross(0.5);
  else if (event.key === "-") zoomToCross(2);
  else if (event.key === "0") { showAll(); soon(paintMatrix); }
  else if (event.key === "Enter" && cross) hold(tokenOf(cross[state.way === "at" ? 0 : 1]), true);
  else return;
  event.preventDefault();
});

// The cell to zoom to: the one pointed at, or the strongest link of the token held.
function focus() {
  const { row, column, side } = state.window;
  if (cross) return cross;
  const known = state.data && placeOf(state.token) >= 0 ? line(state.data, state.token, state.way) : null;
  const other = known ? strongest(known, COUNT).find((token) => placeOf(token) >= 0) : undefined;
  if (other === undefined) return [row + side / 2, column + side / 2];
  const pair = [placeOf(state.token), placeOf(other)];
  return state.way === "at" ? pair : pair.reverse();
}

function zoomToCross(factor) {
  const { row, column, side } = state.window;
  const [r, c] = focus();
  zoom(factor, (c + 0.5 - column) / side, (r + 0.5 - row) / side);
}

for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => {
    if (button.dataset.zoom === "all") showAll();
    else zoomToCross(Number(button.dataset.zoom));
    soon(paintMatrix);
  });
}

for (const button of document.querySelectorAll("[data-part]")) {
  button.addEventListener("click", () => {
    state.part = button.dataset.part;
    cross = null;
    showAll();
    preparePicture();
    press("part", state.part);
    soon(paintMatrix);
  });
}
