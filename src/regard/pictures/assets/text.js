// The text, its tokens tinted by what the chosen token looks at (or by what looks at it).

const textElement = document.getElementById("text");
const spans = []; // of the tokens in chunks that are filled; see spanOf
const chunks = [];
const chunkOf = new Int32Array(COUNT);
const CHUNK = { least: 150, most: 500 }; // tokens
let marked = 0; // the token that is marked as chosen now
const PALE = 25; // a hundredth of the strongest: a long text would be tinted all over
let levels = new Uint8Array(COUNT); // what the tokens show now

// The text stands in chunks: the browser lays out those in sight only, and those out of sight are
// filled when nothing else is to be done.  So a long text opens as fast as a short one.
function buildText() {
  const width = Math.max(200, textElement.clientWidth);
  for (let from = 0; from < COUNT; ) {
    let to = from + 1;
    while (to < COUNT && to - from < CHUNK.most
      && !(to - from >= CHUNK.least && META.gaps[to - 1] === 2)) to++;
    const element = made("div", "chunk");
    element.setAttribute("role", "presentation");
    const letters = TOKENS.slice(from, to).join(" ").length;
    element.style.containIntrinsicSize = `auto ${30 * Math.ceil((8.4 * letters) / width)}px`;
    chunkOf.fill(chunks.length, from, to);
    chunks.push({ from, to, element, filled: false });
    textElement.append(element);
    from = to;
  }
  textElement.classList.toggle("long", chunks.length > 4);
}

// What needs nobody's patience: one chunk after the other, as long as nothing else is to be done.
function fillRest(idle) {
  const left = chunks.filter((chunk) => !chunk.filled);
  do {
    if (left.length) fill(left.shift());
  } while (left.length && idle?.timeRemaining?.() > 8);
  if (left.length) (window.requestIdleCallback ?? setTimeout)(fillRest);
  else textElement.dataset.filled = "all";
}

function fill(chunk) {
  if (chunk.filled) return;
  chunk.filled = true;
  const fragment = document.createDocumentFragment();
  for (let at = chunk.from; at < chunk.to; at++) {
    const span = made("span", "token", TOKENS[at]);
    span.id = `token-${at}`;
    span.setAttribute("role", "option");
    span.dataset.at = at;
    if (META.floor > 0 && PLACE[at] >= 0) span.classList.add("kept");
    spans[at] = span;
    if (META.gaps[at] === 1) fragment.append(" ", span);
    else fragment.append(span);
    if (META.gaps[at] === 2) fragment.append(document.createElement("br"));
    else if (META.gaps[at + 1] !== 1) fragment.append(document.createElement("wbr"));
    dye(at, levels[at]);
    if (isFound[at]) span.classList.add("found");
  }
  chunk.element.append(fragment);
}

function spanOf(token) {
  fill(chunks[chunkOf[token]]);
  return spans[token];
}

function dye(at, level) {
  const { style } = spans[at];
  if (level === 0) {
    style.background = style.color = "";
    return;
  }
  const [r, g, b] = rampNow().subarray(3 * level, 3 * level + 3);
  style.background = `rgb(${r} ${g} ${b})`;
  style.color = 0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#14202b" : "#f4f8fb";
}

// Takes the levels of all tokens; `anew` dyes those too that keep theirs, in other colours.
function tint(next, anew = false) {
  const before = levels;
  levels = next.map((level) => (level < PALE ? 0 : level));
  for (const { from, to, filled } of chunks) {
    if (!filled) continue;
    for (let at = from; at < to; at++) if (anew || levels[at] !== before[at]) dye(at, levels[at]);
  }
}

// On a scale of its own for each token: the strongest entry is full, the root lifts the weak.
function levelsOf(values, most) {
  const levels = new Uint8Array(values.length);
  for (let i = 0; i < values.length; i++) {
    levels[i] = most > 0 ? Math.round(255 * Math.sqrt(Math.min(1, values[i] / most))) : 0;
  }
  return levels;
}

function paintText(anew = false) {
  const { data, way } = state;
  if (!data) return;
  const token = state.pointed ?? state.token;
  const known = line(data, token, way);
  // A block's mean is no token's: only what is exactly known gives colour.
  const values = known.values.map((value, at) => (known.exact[at] ? value : 0));
  tint(levelsOf(values, values.reduce((a, b) => Math.max(a, b), 0.02)), anew === true);
  for (const [at, here] of [[marked, false], [token, true]]) {
    spanOf(at).classList.toggle("here", here);
    spanOf(at).setAttribute("aria-selected", here);
  }
  marked = token;
  textElement.classList.toggle("held", state.held);
  textElement.setAttribute("aria-activedescendant", `token-${token}`);
  listMost(known, token);
}

function listMost(known, token) {
  const key = state.way === "at" ? "page.most-at" : "page.most-by";
  document.getElementById("most-title").textContent = say(key, { token: TOKENS[token] });
  const items = strongest(known, 8).map((other) => {
    const item = document.createElement("li");
    const bar = made("i", "meter");
    bar.style.setProperty("--part", known.values[other]);
    const name = made("span", "name");
    const follow = made("button", "", TOKENS[other]);
    follow.type = "button";
    follow.addEventListener("click", () => {
      hold(other, true);
      reveal(other);
    });
    name.append(follow, made("small", "soft", other));
    item.append(name, bar, made("b", "", number(known.values[other])));
    item.dataset.at = other;
    return item;
  });
  if (!items.length) items.push(made("li", "soft", nothingTold(token)));
  document.getElementById("most").replaceChildren(...items);
}

// Why nothing is listed: there is nothing, or the file does not tell it.
function nothingTold(token) {
  const values = { count: STRONGEST, least: META.floor, chosen: CHOSEN.length };
  if (META.dense) return say("page.nothing");
  if (META.floor > 1 && PLACE[token] < 0) return say("page.not-kept", values);
  if (META.floor > 0 && PLACE[token] < 0) return say("page.none-strong", values);
  return say(state.way === "at" ? "page.nothing" : "page.nobody", values);
}

// The number between the token held and the one pointed at.
function sayPair(other) {
  const said = document.getElementById("said");
  if (other === null || !state.data) {
    said.textContent = "";
    return;
  }
  const [query, key] = state.way === "at" ? [state.token, other] : [other, state.token];
  said.replaceChildren(...pairTold(query, key));
}

function pairTold(query, key) {
  const [value, exact] = weight(state.data, query, key);
  const pair = say("page.pair", { query: TOKENS[query], key: TOKENS[key] });
  return [made("span", "tokens", pair), made("span", "value", told(value, exact))];
}

const tokenAt = (event) => {
  const span = event.target.closest?.(".token");
  return span ? Number(span.dataset.at) : null;
};

textElement.addEventListener("pointerover", (event) => {
  const at = tokenAt(event);
  if (at === null || event.pointerType === "touch") return;
  if (state.held) {
    sayPair(at);
  } else {
    state.pointed = at;
    soon(paintText);
  }
});

textElement.addEventListener("pointerleave", () => {
  sayPair(null);
  if (state.pointed !== null) {
    state.pointed = null;
    soon(paintText);
  }
});

textElement.addEventListener("click", (event) => {
  const at = tokenAt(event);
  if (at !== null) hold(at, !(state.held && state.token === at));
});

textElement.addEventListener("keydown", (event) => {
  const page = 10;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -page, ArrowDown: page };
  if (event.key === "Escape") hold(state.token, false);
  else if (event.key === "Home") hold(0, true);
  else if (event.key === "End") hold(COUNT - 1, true);
  else if (event.key in steps) {
    hold(Math.min(COUNT - 1, Math.max(0, state.token + steps[event.key])), true);
  } else return;
  event.preventDefault();
  reveal(state.token);
});

// Scrolls the text, not the page, until a token is in sight; again as long as chunks that come
// into sight turn out higher or lower than was guessed.
function reveal(token, again = 4) {
  const box = textElement.getBoundingClientRect();
  const span = spanOf(token).getBoundingClientRect();
  if (span.top >= box.top && span.bottom <= box.bottom) return;
  textElement.scrollTop += span.top - box.top - box.height / 3;
  if (again) requestAnimationFrame(() => reveal(token, again - 1));
}

function hold(token, held) {
  state.token = token;
  state.held = held;
  state.pointed = null;
  sayPair(null);
  soon(paintText);
  soon(paintMatrix);
  soon(paintLinks);
  remember();
}
