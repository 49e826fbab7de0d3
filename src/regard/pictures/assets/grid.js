// All heads as thumbnails: one row a layer; the frame tells the role.

const gridElement = document.getElementById("grid");
const cells = []; // in the order of HEADS
let thumbnails = null;

const dark = matchMedia("(prefers-color-scheme: dark)");
const rampNow = () => RAMPS[dark.matches ? 1 : 0];

// Writes levels 0..255 into a canvas of their own size, in the ramp's colours.
function paintLevels(canvas, levels, high, wide) {
  canvas.width = wide;
  canvas.height = high;
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(wide, high);
  const ramp = rampNow();
  for (let i = 0; i < high * wide; i++) {
    const colour = 3 * levels[i];
    pixels.data[4 * i] = ramp[colour];
    pixels.data[4 * i + 1] = ramp[colour + 1];
    pixels.data[4 * i + 2] = ramp[colour + 2];
    pixels.data[4 * i + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
}

function buildGrid() {
  const numbers = [...new Set(HEADS.map((head) => head.head))].sort((a, b) => a - b);
  gridElement.style.setProperty("--columns", numbers.length);
  gridElement.classList.toggle("coarse", META.thumbnail[0] <= 20);
  gridElement.append(row([made("span", "corner"), ...numbers.map((n) => headerCell(n, "column"))]));
  for (const heads of META.layers) {
    const line = row([headerCell(heads[0].layer, "row")]);
    for (const head of heads) {
      const cell = made("div", "cell");
      cell.setAttribute("role", "gridcell");
      cell.tabIndex = -1;
      cell.style.gridColumn = numbers.indexOf(head.head) + 2;
      cell.style.setProperty("--role", META.roles[head.role].colour);
      cell.append(document.createElement("canvas"));
      cell.addEventListener("click", () => choose(head));
      cell.addEventListener("keydown", (event) => moveInGrid(event, head));
      cells.push(cell);
      line.append(cell);
    }
    gridElement.append(line);
  }
}

function made(tag, kind, text = "") {
  const element = document.createElement(tag);
  element.className = kind;
  element.textContent = text;
  return element;
}

function row(children) {
  const element = made("div", "row");
  element.setAttribute("role", "row");
  element.append(...children);
  return element;
}

function headerCell(text, kind) {
  const cell = made("span", `number ${kind}`, text);
  cell.setAttribute("role", `${kind}header`);
  return cell;
}

function paintGrid() {
  if (!thumbnails) return;
  const [high, wide] = META.thumbnail;
  cells.forEach((cell, index) => {
    const levels = thumbnails.subarray(index * high * wide, (index + 1) * high * wide);
    paintLevels(cell.firstChild, levels, high, wide);
  });
}

function nameGrid() {
  HEADS.forEach((head, index) => {
    const values = { layer: head.layer, head: head.head, role: roleName(head) };
    cells[index].setAttribute("aria-label", say("page.cell", values));
    cells[index].title = say("page.cell", values);
  });
}

// Scrolls the grid, not the page, until the chosen head is in sight.
function revealCell() {
  const box = gridElement.parentElement;
  const [outer, cell] = [box, cells[state.head.index]].map((each) => each.getBoundingClientRect());
  if (cell.bottom > outer.bottom || cell.top < outer.top + 20) {
    box.scrollTop += cell.top - outer.top - outer.height / 2;
  }
}

const roleName = (head) => say(META.roles[head.role].name);
const visible = (head) => state.roles.size === 0 || state.roles.has(head.role);

function markGrid() {
  HEADS.forEach((head, index) => {
    const here = head === state.head;
    cells[index].classList.toggle("dim", !visible(head));
    cells[index].setAttribute("aria-selected", here);
    cells[index].tabIndex = here ? 0 : -1;
  });
}

// Arrows go to the next head in their direction that the role filter shows.
function moveInGrid(event, head) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  let [at, column] = [head.at + step[0], head.column + step[1]];
  for (; META.layers[at]?.[column]; at += step[0], column += step[1]) {
    const next = META.layers[at][column];
    if (!visible(next)) continue;
    choose(next);
    cells[next.index].focus();
    return;
  }
}

// Chips: one a role that occurs; none pressed means that all are shown.
function buildRoles() {
  const counts = {};
  for (const head of HEADS) counts[head.role] = (counts[head.role] ?? 0) + 1;
  const chips = Object.keys(META.roles).filter((role) => counts[role]).map((role) => {
    const chip = roleChip(role, say(META.roles[role].name));
    chip.append(made("span", "soft", counts[role]));
    chip.title = say(META.roles[role].about);
    chip.setAttribute("aria-pressed", state.roles.has(role));
    chip.dataset.role = role;
    chip.addEventListener("click", () => {
      if (!state.roles.delete(role)) state.roles.add(role);
      chip.setAttribute("aria-pressed", state.roles.has(role));
      markGrid();
    });
    return chip;
  });
  document.getElementById("roles").replaceChildren(...chips);
}

function roleChip(role, text) {
  const chip = made("button", "chip");
  chip.type = "button";
  chip.style.setProperty("--role", META.roles[role].colour);
  chip.append(made("i", "dot"), made("span", "", text));
  return chip;
}

function buildNotable() {
  const chips = META.notable.map(([layer, number]) => {
    const head = HEADS.find((each) => each.layer === layer && each.head === number);
    const values = { layer, head: number };
    const chip = roleChip(head.role, say("page.place", values));
    chip.title = `${roleName(head)} · ${say(META.roles[head.role].about)}`;
    chip.addEventListener("click", () => choose(head));
    return chip;
  });
  document.getElementById("notable").replaceChildren(...chips);
}
