// How numbers are written, and what each comes from: numbers.py in the page.

function written(value) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const small = value !== 0 && Math.abs(value) < 5e-5;
  let text = small ? value.toExponential(0) : value.toFixed(4);
  if (!small) text = text.replace(/\.?0+$/, "");
  return (text === "-0" ? "0" : text).replace(/^-/, "−");
}

function column(values) {
  const texts = values.map(written);
  const most = Math.max(0, ...texts.filter((t) => !t.includes("e")).map((t) => (t.split(".")[1] ?? "").length));
  return texts.map((text, i) => {
    if (/[∞Ne]/.test(text)) return text;
    const [whole, rest] = values[i].toFixed(most).replace(/^-/, "−").split(".");
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return rest ? `${grouped}.${rest}` : grouped;
  });
}

const bracketed = (value) => (value < 0 && Number.isFinite(value) ? `(${written(value)})` : written(value));

function dotted(a, b) {
  const terms = a.map((x, i) => `${bracketed(x)} · ${bracketed(b[i])}`);
  return (terms.length > 6 ? [...terms.slice(0, 3), "…", terms.at(-1)] : terms).join(" + ");
}

const down = (m, j) => Array.from({ length: m.rows }, (_, i) => at(m, i, j));

// One number of a table, worked out with the numbers that it comes from.
function worked(table, head, i, j) {
  const result = written(at(matricesOf(table)[head], i, j));
  const s = table.inputs.map((name) => {
    const parts = matricesOf(SHEET[name]);
    return parts[head % parts.length];
  });
  const n = (k, r = i, c = j) => bracketed(at(s[k], r, c));
  const left = {
    dots: () => dotted(row(s[0], i), row(s[1], j)),
    product: () => dotted(row(s[0], i), down(s[1], j)),
    mix: () => dotted(row(s[0], i), down(s[1], j)),
    scale: () => `${n(0)} · ${n(1, 0, 0)}${at(s[2], 0, 0) === 1 ? "" : ` ÷ ${n(2, 0, 0)}`}`,
    times: () => `${n(0)} · ${n(1)}`,
    over: () => `${n(0)} ÷ ${n(1)}`,
    power: () => `${n(0)} ^ ${n(1)}`,
    plus: () => `${n(0)} + ${n(1)}`,
    largest: () => `max(${row(s[0], i).map(bracketed).join(", ")})`,
    powers: () => `exp(${n(0)} − ${Number.isFinite(at(s[1], i, 0)) ? n(1, i, 0) : 0})`,
    sum: () => row(s[0], i).map(bracketed).join(" + "),
    softmax: () => `${n(1)} ÷ ${n(2, i, 0)}`,
    rotate: () => {
      const [a, b, angle] = [n(0, i, j - (j % 2)), n(0, i, j - (j % 2) + 1), n(1, i, j >> 1)];
      return j % 2 ? `${a} · sin(${angle}) + ${b} · cos(${angle})` : `${a} · cos(${angle}) − ${b} · sin(${angle})`;
    },
  }[table.operation];
  return left ? `${left()} = ${result}` : result;
}

// Where a number comes from: [table, head, rows, columns], null meaning all of them.
function sources(table, head, i, j) {
  const [a, b, c] = table.inputs;
  const of = (name, r, k) => {
    const { shape } = SHEET[name];
    const heads = shape.length > 2 ? shape[0] : 1;
    const [rows, cols] = shape.slice(-2);
    return [name, head % heads, r === null ? null : r % rows, k === null ? null : k % cols];
  };
  switch (table.operation) {
    case "dots": return [of(a, i, null), of(b, j, null)];
    case "product": case "mix": return [of(a, i, null), of(b, null, j)];
    case "scale": return [of(a, i, j), of(b, 0, 0), of(c, 0, 0)];
    case "largest": case "sum": return [of(a, i, null)];
    case "powers": return [of(a, i, j), of(b, i, 0)];
    case "softmax": return [of(b, i, j), of(c, i, 0)];
    case "rotate": return [of(a, i, j - (j % 2)), of(a, i, j - (j % 2) + 1), of(b, i, j >> 1)];
    case "take": return [of(a, SHEET[b].values[i] - 1, j)];
    case "turn": return [of(a, j, i)];
    case "split": return [[a, 0, i, head * table.shape.at(-1) + j]];
    case "concat": {
      const width = SHEET[a].shape.at(-1);
      return [[a, Math.floor(j / width), i, j % width]];
    }
    default: return table.inputs.map((name) => of(name, i, j));
  }
}
