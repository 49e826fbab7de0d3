// Finds a word in the text, across tokens, or a token by its number: "#120".

const searchElement = document.getElementById("search");
const isFound = new Uint8Array(COUNT);
let flowing = null; // the text as people read it, in small letters, and where each token begins

function flow() {
  const starts = [];
  let text = "";
  TOKENS.forEach((token, at) => {
    if (META.gaps[at] === 1) text += " ";
    starts.push(text.length);
    text += token.toLowerCase().replaceAll("↵", ""); // a line end is a space between words
    if (META.gaps[at] === 2) text += " ";
  });
  return { text, starts };
}

// The last token that begins at or before a letter of the flowing text.
function tokenWith(starts, letter) {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= letter) low = middle;
    else high = middle - 1;
  }
  return low;
}

// Every place of a word, as [first token, last token].
function placesOf(word) {
  if (!word) return [];
  const position = /^#(\d+)$/.exec(word);
  if (position) return Number(position[1]) < COUNT ? [[Number(position[1]), Number(position[1])]] : [];
  flowing ??= flow();
  const { text, starts } = flowing;
  const found = [];
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
    found.push([tokenWith(starts, at), tokenWith(starts, at + word.length - 1)]);
  }
  return found;
}

function search() {
  markFound(false);
  state.found = placesOf(searchElement.value.trim().toLowerCase());
  state.foundAt = -1;
  markFound(true);
  sayFound();
  soon(paintLinks);
}

function markFound(on) {
  for (const [from, to] of state.found) {
    for (let at = from; at <= to; at++) {
      isFound[at] = on ? 1 : 0;
      spans[at]?.classList.toggle("found", on);
    }
  }
}

function sayFound() {
  const { found, foundAt } = state;
  const asked = searchElement.value.trim() !== "";
  const key = !found.length ? "page.found-none" : foundAt < 0 ? "page.found-all" : "page.found-at";
  document.getElementById("found").textContent = asked
    ? say(key, { count: found.length.toLocaleString("en"), at: foundAt + 1 }) : "";
  for (const button of document.querySelectorAll("[data-found]")) button.disabled = !found.length;
}

// To the next place (or the one before), counted from the token held at first.
function goTo(step) {
  const { found } = state;
  if (!found.length) return;
  if (state.foundAt < 0) {
    const next = found.findIndex(([from]) => from > state.token);
    const after = next < 0 ? found.length : next;
    state.foundAt = step > 0 ? after % found.length : (after - 1 + found.length) % found.length;
  } else {
    state.foundAt = (state.foundAt + step + found.length) % found.length;
  }
  const [, last] = found[state.foundAt]; // a word's last token has read all of it
  hold(last, true);
  reveal(last);
  sayFound();
}

searchElement.addEventListener("input", search);
searchElement.addEventListener("keydown", (event) => {
  if (event.isComposing) return; // Enter chooses a Chinese word first
  if (event.key === "Enter") goTo(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape") {
    searchElement.value = "";
    search();
    textElement.focus();
  } else return;
  event.preventDefault();
});

for (const button of document.querySelectorAll("[data-found]")) {
  button.addEventListener("click", () => goTo(Number(button.dataset.found)));
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, select")) return;
  event.preventDefault();
  searchElement.focus();
  searchElement.select();
});
