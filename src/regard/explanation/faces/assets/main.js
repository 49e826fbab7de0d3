// The steps, the sliders and both languages.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SHEET = {};
for (const table of DATA.tables) {
  table.values = table.values.map((v) => ({ inf: Infinity, "-inf": -Infinity, nan: NaN })[v] ?? v);
  table.start = table.values.slice();
  SHEET[table.name] = table;
}
const CELLS = new Map();
const state = { lang: DATA.lang, step: 0, cell: null };
const $ = (id) => document.getElementById(id);

function say(name, values = {}) {
  const text = DATA.words[state.lang][name];
  return text?.replace(/\{(\w+)\}/g, (whole, word) => values[word] ?? whole);
}

function valueOf(value) {
  if (!Array.isArray(value)) return String(value);
  const [name, i, j] = value;
  return column([SHEET[name].values[i * SHEET[name].shape.at(-1) + j]])[0];
}

function filled(step) {
  return Object.fromEntries(Object.entries(step.values).map(([name, value]) => [name, valueOf(value)]));
}

function sayStep() {
  const step = DATA.steps[state.step];
  const values = filled(step);
  $("step-title").textContent = `${state.step + 1}. ${say(`${step.key}-title`, values)}`;
  $("step-text").textContent = say(step.key, values);
  $("formula").textContent = step.formula;
  $("numpy").textContent = step.numpy;
  $("torch").textContent = step.torch;
  $("cost").textContent = step.multiplications
    ? say("explain.cost", { multiplications: step.multiplications, bytes: step.bytes }) : "";
  document.querySelectorAll("#steps button").forEach((button, index) => {
    const each = DATA.steps[index];
    button.textContent = `${index + 1}. ${say(`${each.key}-title`, filled(each))}`;
    if (index === state.step) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
  $("before").disabled = state.step === 0;
  $("after").disabled = state.step === DATA.steps.length - 1;
}

function showStep(index) {
  state.step = Math.max(0, Math.min(DATA.steps.length - 1, index));
  state.cell = null;
  const step = DATA.steps[state.step];
  clearMarks();
  $("said").textContent = "";
  CELLS.clear();
  for (const old of document.querySelectorAll("#tables .table")) old.remove();
  for (const name of step.shown) {
    const parts = matricesOf(SHEET[name]);
    parts.forEach((m, head) => $("tables").append(buildTable(SHEET[name], m, head, parts.length)));
  }
  for (const cell of document.querySelectorAll("#tables [data-cell]")) CELLS.set(cell.dataset.cell, cell);
  const first = document.querySelector("#tables .table:last-of-type [data-cell]");
  if (first) first.tabIndex = 0;
  sayStep();
  fillTables(step);
  drawChart(step.chart);
  history.replaceState(null, "", `#${step.name}`);
  document.documentElement.dataset.step = step.name;
}

function shapes() {
  return DATA.steps[state.step].shown.map((name) => SHEET[name].shape.join()).join(";");
}

function refresh(changed) {
  const before = shapes();
  recompute(DATA.tables, SHEET, changed);
  if (shapes() !== before) return showStep(state.step); // an experiment has other rows now
  sayStep();
  fillTables(DATA.steps[state.step]);
  drawChart(DATA.steps[state.step].chart);
  if (state.cell) point(state.cell);
}

// ---------------------------------------------------------------- sliders

const scalars = DATA.tables.filter((t) => t.operation === "given" && t.values.length === 1);
const vectors = DATA.tables.filter((t) => t.operation === "given" && t.values.length > 1);

// How far a slider reaches, and its step where it counts.
const REACH = {
  temperature: [0.05, 5], strength: [0, 20], factor: [-5, 5], width: [2, 512, 1], length: [2, 512, 1],
  keys: [2, 32, 1], draws: [10, 1000, 1], tries: [1, 20000, 1], hidden: [1, 2, 1], "layer-count": [1, 64, 1],
};

function slider(table, index, label, low, high, step = "any") {
  const value = table.values[index];
  const id = `slide-${table.name}-${index}`;
  const shown = element("output", { for: id, text: written(value) });
  const input = element("input", {
    id, type: "range", min: Math.min(low, value), max: Math.max(high, value), step, value: String(value),
  });
  input.addEventListener("input", () => {
    table.values[index] = Number(input.value);
    shown.textContent = written(table.values[index]);
    input.setAttribute("aria-valuetext", shown.textContent);
    refresh([table.name]);
  });
  return element("div", { class: "slider" }, element("label", { for: id, text: label }), shown, input);
}

function buildRows() {
  const chosen = $("row").value;
  $("row").replaceChildren();
  for (const table of vectors) {
    const left = names(table.rows, table.shape.at(-2));
    for (let i = 0; i < table.shape.at(-2); i++) {
      $("row").append(element("option", { value: `${table.name}/${i}`, text: `${table.symbol} · ${left[i] || i + 1}` }));
    }
  }
  if (chosen) $("row").value = chosen;
  $("row").hidden = document.querySelector("label[for=row]").hidden = !vectors.length;
  buildSliders();
}

function buildSliders() {
  $("sliders").replaceChildren();
  $("settings").replaceChildren();
  if (vectors.length) {
    const [name, i] = $("row").value.split("/");
    const cols = SHEET[name].shape.at(-1);
    const reach = Math.max(2, ...SHEET[name].start.map((v) => 2 * Math.abs(v)));
    for (let j = 0; j < cols; j++) {
      $("sliders").append(slider(SHEET[name], Number(i) * cols + j, `${SHEET[name].symbol}[${Number(i) + 1}, ${j + 1}]`, -reach, reach));
    }
  }
  for (const table of scalars) {
    const [low, high, step] = REACH[table.columns] ?? [0, 2];
    $("settings").append(slider(table, 0, say(`columns.${table.columns}`) ?? table.symbol, low, high, step));
  }
}

$("row").addEventListener("change", buildSliders);
$("reset").addEventListener("click", () => {
  for (const table of [...scalars, ...vectors]) table.values = table.start.slice();
  buildSliders();
  refresh([...scalars, ...vectors].map((table) => table.name));
});

// ---------------------------------------------------------------- pointing, by mouse or keyboard

function pointAt(target) {
  const cell = target.closest?.("[data-cell]");
  if (!cell) return;
  state.cell = cell;
  point(cell);
}
$("tables").addEventListener("pointerover", (event) => pointAt(event.target));
$("tables").addEventListener("focusin", (event) => pointAt(event.target));
$("tables").addEventListener("click", (event) => event.target.closest("[data-cell]")?.focus());
$("tables").addEventListener("keydown", (event) => {
  const cell = event.target.closest("[data-cell]");
  const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!cell || !move) return;
  event.preventDefault();
  const [name, head, i, j] = cell.dataset.cell.split("/");
  let next = CELLS.get(key(name, head, Number(i) + move[0], Number(j) + move[1]));
  if (!next && move[1]) { // past the edge of a table stands the next one
    const all = [...document.querySelectorAll("#tables table")];
    const other = all[all.indexOf(cell.closest("table")) + move[1]];
    next = other && [...other.querySelectorAll("[data-cell]")].at(move[1] > 0 ? 0 : -1);
  }
  if (!next) return;
  for (const each of document.querySelectorAll("#tables [tabindex='0']")) each.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

// ---------------------------------------------------------------- steps and languages

DATA.steps.forEach((step, index) => {
  const button = element("button", { type: "button", "data-step": step.name });
  button.addEventListener("click", () => showStep(index));
  $("steps").append(element("li", {}, button));
});
$("steps").addEventListener("keydown", (event) => {
  const move = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
  if (!move) return;
  event.preventDefault();
  showStep(state.step + move);
  document.querySelectorAll("#steps button")[state.step].focus();
});
$("before").addEventListener("click", () => showStep(state.step - 1));
$("after").addEventListener("click", () => showStep(state.step + 1));
for (const button of document.querySelectorAll("[data-lang]")) {
  button.addEventListener("click", () => speak(button.dataset.lang));
}

function speak(lang) {
  state.lang = lang;
  document.documentElement.lang = lang === "zh" ? "zh-Hans" : "en";
  $("title").textContent = document.title = say(DATA.title);
  $("note").textContent = DATA.note ? say(DATA.note) : "";
  for (const node of document.querySelectorAll("[data-say]")) node.textContent = say(node.dataset.say);
  for (const node of document.querySelectorAll("[data-label]")) {
    node.setAttribute("aria-label", say(node.dataset.label));
  }
  for (const button of document.querySelectorAll("[data-lang]")) {
    button.setAttribute("aria-pressed", button.dataset.lang === lang);
  }
  $("chart").setAttribute("aria-label", say("explain.page-figure"));
  buildRows();
  showStep(state.step);
}

state.step = Math.max(0, DATA.steps.findIndex((step) => `#${step.name}` === location.hash));
speak(DATA.lang);
