// What of the weights this file holds, and how exactly: as a list that people read.

function keptKeys() {
  const rounded = META.fine ? "page.kept-fine" : "page.kept-coarse";
  if (META.dense) return ["page.kept-all", rounded];
  const keys = ["page.kept-image"];
  if (STRONGEST && META.floor <= 1) keys.push(META.floor ? "page.kept-floor" : "page.kept-strongest");
  if (STRONGEST && META.floor && CHOSEN.length) keys.push("page.kept-strongest-chosen");
  if (CHOSEN.length) keys.push("page.kept-chosen");
  keys.push(META.bin === 1 ? "page.kept-received" : "page.kept-received-bins");
  return [...keys, rounded, "page.kept-rest"];
}

function sayKept() {
  const values = {
    block: META.block, count: STRONGEST, least: META.floor, chosen: CHOSEN.length, bin: META.bin,
  };
  const items = keptKeys().map((key) => made("li", "", say(key, values)));
  document.getElementById("kept").replaceChildren(...items);
}
