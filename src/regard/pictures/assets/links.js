// Lines from queries to keys, between all tokens of a short text or up to 200 of a long one.

const linksElement = document.getElementById("links");
const LINKED = 200; // the most tokens between which lines are drawn
const LINES = 3000; // the most lines: more would be a carpet
let rows = null; // the tokens shown and how they lie, from the last time they were drawn

function linkTokens() {
  if (COUNT <= LINKED) return TOKENS.map((_, token) => token);
  if (state.linked === "chosen") return CHOSEN;
  if (state.linked === "found") {
    const found = new Set();
    for (const [from, to] of state.found) for (let at = from; at <= to; at++) found.add(at);
    return [...found].sort((a, b) => a - b).slice(0, LINKED);
  }
  const first = Math.min(COUNT - LINKED, Math.max(0, state.token - LINKED / 2));
  return Array.from({ length: LINKED }, (_, at) => first + at);
}

// Every exactly known weight above the least one shown, weakest first.
function linesBetween(tokens) {
  const lines = [];
  for (const query of tokens) {
    for (const key of tokens) {
      if (state.sinkless && key === 0) continue;
      const [value, exact] = weight(state.data, query, key);
      if (exact && value > 0 && value >= state.least) lines.push([query, key, value]);
    }
  }
  lines.sort((a, b) => a[2] - b[2]);
  return lines.slice(-LINES);
}

function paintLinks() {
  if (!state.data) return;
  const tokens = linkTokens();
  const empty = document.getElementById("links-none");
  empty.hidden = tokens.length > 0;
  linksElement.hidden = !tokens.length;
  if (!tokens.length) {
    rows = null;
    document.getElementById("links-said").textContent = "";
    return;
  }
  const high = tokens.length <= 40 ? 19 : 15;
  const { context, width } = fitted(linksElement, high * tokens.length + 4);
  const [left, right] = [Math.round(width * 0.34), Math.round(width * 0.66)];
  rows = { tokens, high, middle: width / 2, place: new Map(tokens.map((token, at) => [token, at])) };
  const y = (token) => 2 + (rows.place.get(token) + 0.5) * high;
  const lines = linesBetween(tokens);
  const end = state.way === "at" ? 0 : 1;
  const held = rows.place.has(state.token);
  for (const line of lines) {
    const mine = held && line[end] === state.token;
    context.globalAlpha = (mine ? 0.35 : held ? 0.06 : 0.1) + (mine ? 0.65 : 0.5) * line[2];
    context.strokeStyle = colourOf(mine ? "--mark" : "--accent");
    context.lineWidth = 0.6 + 2.6 * line[2];
    context.beginPath();
    context.moveTo(left, y(line[0]));
    const bend = (right - left) * 0.4;
    context.bezierCurveTo(left + bend, y(line[0]), right - bend, y(line[1]), right, y(line[1]));
    context.stroke();
  }
  context.globalAlpha = 1;
  context.font = FONT;
  context.textBaseline = "middle";
  const ends = new Set(lines.filter((line) => line[end] === state.token).map((line) => line[1 - end]));
  for (const token of tokens) {
    const chosen = token === state.token;
    const name = cut(context, COUNT > LINKED ? `${TOKENS[token]}  ${token}` : TOKENS[token], left - 10);
    const ink = (here, there) => colourOf(here ? "--mark" : there ? "--ink" : "--soft");
    context.textAlign = "right";
    context.fillStyle = ink(chosen && end === 0, end === 1 && ends.has(token));
    context.fillText(name, left - 6, y(token));
    context.textAlign = "left";
    context.fillStyle = ink(chosen && end === 1, end === 0 && ends.has(token));
    context.fillText(name, right + 6, y(token));
  }
  const values = { count: lines.length, tokens: tokens.length, least: state.least.toFixed(2) };
  document.getElementById("links-said").textContent = say("page.links-told", values);
}

// The token under the pointer: on the left as the one that looks, on the right as the one looked at.
function linkAt(event) {
  if (!rows) return null;
  const box = linksElement.getBoundingClientRect();
  const token = rows.tokens[Math.floor((event.clientY - box.top - 2) / rows.high)];
  return token === undefined ? null : [token, event.clientX - box.left < rows.middle ? "at" : "by"];
}

linksElement.addEventListener("click", (event) => {
  const found = linkAt(event);
  if (!found) return;
  turn(found[1]);
  hold(found[0], true);
  reveal(found[0]);
});

linksElement.addEventListener("keydown", (event) => {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (event.key === "ArrowLeft") turn("at");
  else if (event.key === "ArrowRight") turn("by");
  else if (step && rows) {
    const at = (rows.place.get(state.token) ?? (step > 0 ? -1 : rows.tokens.length)) + step;
    const token = rows.tokens[Math.min(rows.tokens.length - 1, Math.max(0, at))];
    hold(token, true);
    reveal(token);
    const box = linksElement.parentElement;
    const top = rows.high * (rows.place.get(token) ?? 0);
    if (top < box.scrollTop || top + 2 * rows.high > box.scrollTop + box.clientHeight) {
      box.scrollTop = top - box.clientHeight / 2;
    }
  } else return;
  event.preventDefault();
});

for (const button of document.querySelectorAll("[data-linked]")) {
  button.addEventListener("click", () => {
    state.linked = button.dataset.linked;
    press("linked", state.linked);
    soon(paintLinks);
  });
}

document.getElementById("least").addEventListener("input", (event) => {
  state.least = Number(event.target.value) / 100;
  soon(paintLinks);
});

document.getElementById("sinkless").addEventListener("change", (event) => {
  state.sinkless = event.target.checked;
  soon(paintLinks);
});
