// The numbers: thumbnails at once, a layer's block when it is chosen.  page.py's Layout writes it.

const META = JSON.parse(document.getElementById("meta").textContent);
const TOKENS = META.tokens;
const COUNT = TOKENS.length;
const CHOSEN = META.chosen;
const PLACE = new Int32Array(COUNT).fill(-1); // a token's row among the chosen ones, or -1
CHOSEN.forEach((token, row) => { PLACE[token] = row; });

const HEADS = META.layers.flat();
META.layers.forEach((heads, at) => heads.forEach((head, column) => {
  head.at = at; // the layer's place in the file; head.layer is its number in the model
  head.column = column;
}));
let first = 0;
for (const head of HEADS) head.index = first++;

const RAMPS = META.ramps.map((text) => fromBase64(text));

function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

// A block further down the file may not have been read yet when the script runs.
function block(id) {
  return new Promise((resolve, reject) => {
    const look = () => {
      const whole = document.readyState !== "loading";
      const element = document.getElementById(id);
      if (element && (whole || element.nextElementSibling)) resolve(element);
      else if (whole) reject(new Error(`block ${id} is missing`));
      else setTimeout(look, 40);
    };
    look();
  });
}

async function unpacked(id) {
  const bytes = fromBase64((await block(id)).textContent);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Reads arrays in turn; their bytes lie in planes, all first bytes before all second ones.
class Reader {
  constructor(bytes, at) {
    this.bytes = bytes;
    this.at = at;
  }

  take(Kind, count) {
    const size = Kind.BYTES_PER_ELEMENT;
    const out = new Uint8Array(count * size);
    for (let plane = 0; plane < size; plane++) {
      const from = this.at + plane * count;
      for (let i = 0; i < count; i++) out[i * size + plane] = this.bytes[from + i];
    }
    this.at += count * size;
    return new Kind(out.buffer);
  }
}

const ROOT = Float64Array.from({ length: 256 }, (_, level) => (level / 255) ** 2);

// A weight from its level: 16 bits on an even scale, or 8 bits on that of the root.
const WEIGHTS = Float32Array.from({ length: META.fine ? 65536 : 256 }, (_, level) =>
  (META.fine ? level / 65535 : (level / 255) ** 2));
const Level = META.fine ? Uint16Array : Uint8Array;
const STRONGEST = META.strongest;
const UNTOLD = -2; // a key that the file does not name; -1 is none at all

function readHead(reader, head) {
  const weights = (count) => Float32Array.from(reader.take(Level, count), (level) => WEIGHTS[level]);
  const most = Math.log1p(head.received);
  const received = META.fine ? reader.take(Float32Array, COUNT)
    : Float32Array.from(reader.take(Uint8Array, Math.ceil(COUNT / META.bin)),
      (level) => Math.expm1((most * level) / 255));
  const count = STRONGEST * COUNT;
  const ahead = reader.take(META.bytes === 2 ? Uint16Array : Uint32Array, count);
  const top = weights(count);
  const keys = new Int32Array(count);
  const turn = 2 ** (8 * META.bytes);
  for (let i = 0; i < count; i++) {
    const key = (i % COUNT) - ahead[i]; // counted from the query; modulo 2 to the width
    keys[i] = ahead[i] === 0 && top[i] === 0 ? UNTOLD : key < -1 ? key + turn : key;
  }
  const [high, wide] = META.image;
  if (META.dense) return { head, received, keys, top, exact: weights(COUNT * COUNT) };
  const image = reader.take(Uint8Array, high * wide);
  return { head, received, keys, top, image, exact: weights(CHOSEN.length ** 2) };
}

// The bytes of one head in its layer's block, as readHead takes them.
function headBytes() {
  const level = META.fine ? 2 : 1;
  const received = META.fine ? 4 * COUNT : Math.ceil(COUNT / META.bin);
  const top = STRONGEST * COUNT * (META.bytes + level);
  const [high, wide] = META.image;
  const rest = META.dense ? level * COUNT ** 2 : high * wide + level * CHOSEN.length ** 2;
  return received + top + rest;
}

const layers = new Map(); // the last few layers, unpacked
async function dataOf(head) {
  return readHead(new Reader(await layerOf(head.at), headBytes() * head.column), head);
}

function layerOf(at) {
  if (layers.has(at)) {
    const known = layers.get(at);
    layers.delete(at);
    layers.set(at, known);
    return known;
  }
  const coming = unpacked(`layer-${at}`);
  layers.set(at, coming);
  if (layers.size > 4) layers.delete(layers.keys().next().value);
  return coming;
}

// The weight of one entry and whether it is exact: from the whole matrix, from the chosen tokens,
// from the query's strongest; else the mean of its block.
function weight(data, query, key) {
  if (META.dense) return [data.exact[query * COUNT + key], true];
  if (PLACE[query] >= 0 && PLACE[key] >= 0) {
    return [data.exact[PLACE[query] * CHOSEN.length + PLACE[key]], true];
  }
  for (let at = query; at < data.keys.length; at += COUNT) {
    if (data.keys[at] === key) return [data.top[at], true];
    if (data.keys[at] === UNTOLD) break;
    if (data.keys[at] < 0) return [0, true]; // it sees fewer keys: all others weigh nothing
  }
  const pixel = Math.floor(query / META.block) * META.image[1] + Math.floor(key / META.block);
  return [data.head.most * ROOT[data.image[pixel]], false];
}

// One row (what a query looks at) or one column (what looks at a key), as far as it is known.
function line(data, token, way) {
  const values = new Float32Array(COUNT);
  const exact = new Uint8Array(COUNT);
  if (way === "by") {
    for (let query = 0; query < COUNT; query++) {
      const [value, known] = weight(data, query, token);
      values[query] = value;
      exact[query] = known ? 1 : 0;
    }
  } else {
    for (let key = 0; key < COUNT; key++) {
      const [value, known] = weight(data, token, key);
      values[key] = value;
      exact[key] = known ? 1 : 0;
    }
  }
  return { values, exact };
}

// The strongest exactly known entries of a line, strongest first.
function strongest({ values, exact }, count) {
  const known = [];
  for (let i = 0; i < values.length; i++) if (exact[i] && values[i] > 0) known.push(i);
  return known.sort((a, b) => values[b] - values[a]).slice(0, count);
}

function say(key, values = {}) {
  const text = META.words[state.lang][key];
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
}

function number(value) {
  if (value === 0) return "0";
  return value < 0.00005 ? "<0.0001" : value.toFixed(4);
}

// "0.7012, exact" or "≈ 0.0003, mean of 16×16".
function told(value, exact) {
  return exact
    ? `${number(value)} · ${say(META.fine ? "page.exact" : "page.exact-coarse")}`
    : `≈ ${number(value)} · ${say("page.block-mean", { block: META.block })}`;
}
