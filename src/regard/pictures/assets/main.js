// What is chosen now, and how a choice reaches the page.

const state = {
  lang: META.lang,
  head: null,
  data: null, // the head's numbers, once its layer is unpacked
  roles: new Set(), // the roles shown; empty means all
  token: 0, // the token whose links are shown
  held: false, // whether it stays when the pointer moves on
  pointed: null, // the token under the pointer while none is held
  way: "at", // "at": what the token looks at; "by": what looks at it
  part: "whole", // or "chosen"
  found: [], // what the search found, as [first token, last token]
  foundAt: -1, // which of them was gone to last
  linked: CHOSEN.length ? "chosen" : "near", // between which tokens lines are drawn, or "found"
  least: 0.1, // the least weight that gets a line
  sinkless: COUNT > LINKED, // whether lines to the first token are left out
  window: { row: 0, column: 0, side: COUNT },
  most: 1,
};

const layerSelect = document.getElementById("layer");
const headSelect = document.getElementById("number");

async function choose(head) {
  state.head = head;
  state.data = null;
  markGrid();
  revealCell();
  nameHead();
  remember();
  const pane = document.getElementById("head");
  // A layer that is already unpacked must not flicker.
  const late = setTimeout(() => pane.setAttribute("aria-busy", true), 120);
  try {
    const data = await dataOf(head);
    if (state.head !== head) return; // another head was chosen meanwhile
    state.data = data;
    preparePicture();
    paintText();
    paintMatrix();
    paintReceived();
    paintLinks();
    pane.dataset.shown = `${head.layer}-${head.head}`;
  } catch (error) {
    trouble();
    throw error;
  } finally {
    clearTimeout(late);
    if (state.head === head) pane.removeAttribute("aria-busy");
  }
}

function trouble() {
  const place = document.getElementById("trouble");
  place.textContent = say("page.old-browser");
  place.hidden = false;
}

function nameHead() {
  const { head } = state;
  const role = META.roles[head.role];
  const text = (id, value) => { document.getElementById(id).textContent = value; };
  text("place", say("page.place", { layer: head.layer, head: head.head }));
  text("role", say(role.name));
  document.getElementById("role").style.setProperty("--role", role.colour);
  text("about", say(role.about));
  const score = head.role === "none" ? [] : [say("page.score", { value: head.score.toFixed(2) })];
  const numbers = [...score, say("page.entropy", { value: head.entropy.toFixed(2) })];
  text("numbers", numbers.join(" · "));
  layerSelect.replaceChildren(...META.layers.map((heads, at) =>
    new Option(heads[0].layer, at, false, at === head.at)));
  headSelect.replaceChildren(...META.layers[head.at].map((each, column) =>
    new Option(say("page.head-option", { head: each.head, role: roleName(each) }), column, false,
      each === head)));
}

layerSelect.addEventListener("change", () => {
  const heads = META.layers[Number(layerSelect.value)];
  choose(heads.find((head) => head.head === state.head.head) ?? heads[0]);
});
headSelect.addEventListener("change", () => {
  choose(META.layers[state.head.at][Number(headSelect.value)]);
});

// Marks the pressed one among the buttons of a switch.
function press(name, value) {
  for (const button of document.querySelectorAll(`[data-${name}]`)) {
    button.setAttribute("aria-pressed", button.dataset[name] === value);
  }
}

for (const button of document.querySelectorAll("[data-way]")) {
  button.addEventListener("click", () => turn(button.dataset.way));
}

// Shows what the token looks at, or what looks at it.
function turn(way) {
  state.way = way;
  press("way", way);
  sayPair(null);
  for (const paint of [paintText, paintMatrix, paintLinks]) soon(paint);
}

for (const button of document.querySelectorAll("[data-lang]")) {
  button.addEventListener("click", () => speak(button.dataset.lang));
}

function speak(lang) {
  state.lang = lang;
  document.documentElement.lang = lang === "zh" ? "zh-Hans" : "en";
  document.title = say("page.title", { model: META.model });
  for (const element of document.querySelectorAll("[data-say]")) {
    element.textContent = say(element.dataset.say);
  }
  for (const element of document.querySelectorAll("[data-hint]")) {
    element.placeholder = say(element.dataset.hint);
  }
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", say(element.dataset.label));
    if (element.tagName === "BUTTON") element.title = say(element.dataset.label);
  }
  for (const id of ["chosen", "linked-chosen"]) {
    document.getElementById(id).textContent = say("page.chosen", { count: CHOSEN.length });
  }
  document.getElementById("head").dataset.busy = say("page.loading");
  document.getElementById("size").textContent = say("page.size", {
    tokens: COUNT.toLocaleString("en"), layers: META.layers.length, heads: HEADS.length,
  });
  press("lang", lang);
  buildRoles();
  buildNotable();
  nameGrid();
  sayKept();
  sayFound();
  if (!state.head) return;
  nameHead();
  pointAt(null);
  sayPair(null);
  if (!state.data) return;
  paintText();
  paintScale();
  paintLinks();
}

// The address remembers the head and the token, so that a link can point at both.
function remember() {
  const { head, token, held } = state;
  const place = `#layer=${head.layer}&head=${head.head}${held ? `&token=${token}` : ""}`;
  history.replaceState(null, "", place);
}

function recalled() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (asked.has(name) ? Number(asked.get(name)) : null);
  const token = number("token");
  const known = token !== null && TOKENS[token] !== undefined;
  state.token = known ? token : META.token;
  state.held = known || META.held;
  const [layer, head] = [number("layer") ?? META.notable[0][0], number("head") ?? META.notable[0][1]];
  return HEADS.find((each) => each.layer === layer && each.head === head) ?? HEADS[0];
}

function paintAll() {
  paintGrid();
  if (!state.data) return;
  preparePicture();
  paintText(true);
  paintMatrix();
  paintReceived();
  paintLinks();
}

function start() {
  document.getElementById("model").textContent = META.model;
  document.getElementById("parts").hidden = META.dense || !CHOSEN.length;
  document.getElementById("linked").hidden = COUNT <= LINKED;
  document.getElementById("linked-chosen").hidden = !CHOSEN.length;
  // Room for the list's usual length, so that what stands below keeps its place.
  const usual = META.dense ? COUNT : STRONGEST;
  document.querySelector(".most").style.minHeight = `${46 + 22 * Math.min(8, Math.max(2, usual))}px`;
  buildGrid();
  state.head = recalled();
  speak(META.lang);
  press("way", state.way);
  press("part", state.part);
  press("linked", state.linked);
  document.getElementById("sinkless").checked = state.sinkless;
  buildText();
  if (!("DecompressionStream" in window)) {
    trouble();
    return;
  }
  unpacked("thumbnails").then((bytes) => {
    thumbnails = bytes;
    paintGrid();
    document.documentElement.dataset.grid = "shown";
  }).catch(trouble);
  reveal(state.token);
  choose(state.head).then(() => fillRest());
  dark.addEventListener("change", paintAll);
  new ResizeObserver(() => {
    soon(paintMatrix);
    soon(paintReceived);
    soon(paintLinks);
  }).observe(document.querySelector(".views"));
}

start();
