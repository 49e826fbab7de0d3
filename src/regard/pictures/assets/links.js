// The text, its tokens tinted by what the chosen token looks at (or by what looks at it).

const textElement = document.getElementById("text");
const spans = [];
let marked = 0; // the token that is marked as chosen now
const PALE = 25; // a hundredth of the strongest: a long text would be tinted all over
let tinted = new Int16Array(COUNT); // the level that each span shows now

function buildText() {
  const fragment = document.createDocumentFragment();
  TOKENS.forEach((token, at) => {
    if (META.gaps[at] === 1) fragment.append(" ");
    const span = made("span", "token", token);
    span.id = `token-${at}`;
    span.setAttribute("role", "option");
    span.dataset.at = at;
    spans.push(span);
    fragment.append(span);
    if (META.gaps[at] === 2) fragment.append(document.createElement("br"));
    else fragment.append(document.createElement("wbr"));
  });
  textElement.append(fragment);
}

function tint(levels) {
  const ramp = rampNow();
  for (let at = 0; at < COUNT; at++) {
    const level = levels[at] < PALE ? 0 : levels[at];
    if (level === tinted[at]) continue;
    const style = spans[at].style;
    if (level === 0) {
      style.background = style.color = "";
    } else {
      const [r, g, b] = ramp.subarray(3 * level, 3 * level + 3);
      style.background = `rgb(${r} ${g} ${b})`;
      style.color = 0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#14202b" : "#f4f8fb";
    }
    tinted[at] = level;
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

function paintText() {
  const { data, way } = state;
  if (!data) return;
  const token = state.pointed ?? state.token;
  const known = line(data, token, way);
  // The floor keeps a line of block means alone from shouting: it stays pale.
  tint(levelsOf(known.values, known.values.reduce((a, b) => Math.max(a, b), 0.02)));
  for (const [at, here] of [[marked, false], [token, true]]) {
    spans[at].classList.toggle("here", here);
    spans[at].setAttribute("aria-selected", here);
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
  if (!items.length) items.push(made("li", "soft", say(state.way === "at" ? "page.nothing" : "page.nobody")));
  document.getElementById("most").replaceChildren(...items);
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

// Scrolls the text, not the page, until a token is in sight.
function reveal(token) {
  const box = textElement.getBoundingClientRect();
  const span = spans[token].getBoundingClientRect();
  if (span.top < box.top || span.bottom > box.bottom) {
    textElement.scrollTop += span.top - box.top - box.height / 3;
  }
}

function hold(token, held) {
  state.token = token;
  state.held = held;
  state.pointed = null;
  sayPair(null);
  soon(paintText);
  soon(paintMatrix);
  remember();
}

// ---------------------------------------------------------------- what each token receives

const strip = document.getElementById("received");

function paintReceived() {
  if (!state.data) return;
  const { context, width, height } = fitted(strip, 26);
  const { received } = state.data;
  const most = received.reduce((a, b) => Math.max(a, b), 0) || 1;
  const ramp = rampNow();
  const colour = (value) => {
    const at = 3 * Math.round(255 * Math.sqrt(Math.max(0, value) / most));
    return `rgb(${ramp[at]} ${ramp[at + 1]} ${ramp[at + 2]})`;
  };
  const step = Math.max(1, Math.floor(COUNT / width)); // several tokens a pixel: the most of them
  for (let at = 0; at < COUNT; at += step) {
    let value = 0;
    for (let i = at; i < Math.min(COUNT, at + step); i++) value = Math.max(value, received[i]);
    const from = (at * width) / COUNT;
    context.fillStyle = colour(value);
    context.fillRect(from, 0, (step * width) / COUNT + 0.5, height);
    if (width / COUNT < 18) continue;
    const at3 = 3 * Math.round(255 * Math.sqrt(value / most));
    context.fillStyle = ramp[at3 + 1] > 140 ? "#14202b" : "#f4f8fb";
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillText(cut(context, TOKENS[at], width / COUNT - 6), from + 3, height / 2);
  }
}

strip.addEventListener("pointermove", (event) => {
  if (!state.data) return;
  const box = strip.getBoundingClientRect();
  const at = Math.floor(((event.clientX - box.left) / box.width) * COUNT);
  const token = Math.min(COUNT - 1, Math.max(0, at));
  const value = state.data.received[token].toFixed(2);
  document.getElementById("received-said").textContent =
    say("page.received-value", { token: TOKENS[token], value });
});

strip.addEventListener("pointerleave", () => {
  document.getElementById("received-said").textContent = "";
});
