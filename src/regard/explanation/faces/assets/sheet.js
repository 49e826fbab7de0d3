// The sheet's arithmetic: the same operations, by the same names, as sheet.py has.
// A table is { shape, values }, its values in row order; a matrix of it is one head.

function matricesOf(table) {
  const [rows, cols] = table.shape.slice(-2);
  const size = rows * cols;
  const count = table.values.length / size;
  return Array.from({ length: count }, (_, head) => ({
    rows, cols, values: table.values.slice(head * size, (head + 1) * size),
  }));
}

function made(rows, cols, cell) {
  const values = new Array(rows * cols);
  for (let i = 0; i < rows; i++) for (let j = 0; j < cols; j++) values[i * cols + j] = cell(i, j);
  return { rows, cols, values };
}

const at = (m, i, j) => m.values[(i % m.rows) * m.cols + (j % m.cols)];
const row = (m, i) => m.values.slice(i * m.cols, (i + 1) * m.cols);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const like = (a, b, cell) => made(Math.max(a.rows, b.rows), Math.max(a.cols, b.cols), cell);

function times(a, b) {
  return made(a.rows, b.cols, (i, j) => {
    let total = 0;
    for (let k = 0; k < a.cols; k++) total += at(a, i, k) * at(b, k, j);
    return total;
  });
}

const OPERATIONS = {
  same: (a) => a,
  product: times,
  mix: times,
  dots: (q, k) => made(q.rows, k.rows, (i, j) => {
    let total = 0;
    for (let c = 0; c < q.cols; c++) total += at(q, i, c) * at(k, j, c);
    return total;
  }),
  scale: (s, scale, heat) => made(s.rows, s.cols, (i, j) => at(s, i, j) * (at(scale, 0, 0) / at(heat, 0, 0))),
  times: (a, b) => like(a, b, (i, j) => at(a, i, j) * at(b, i, j)),
  over: (a, b) => like(a, b, (i, j) => at(a, i, j) / at(b, i, j)),
  power: (a, b) => like(a, b, (i, j) => at(a, i, j) ** at(b, i, j)),
  turn: (a) => made(a.cols, a.rows, (i, j) => at(a, j, i)),
  plus: (a, b) => like(a, b, (i, j) => at(a, i, j) + at(b, i, j)),
  hide: (s, seen) => like(s, seen, (i, j) => (at(seen, i, j) ? at(s, i, j) : -Infinity)),
  largest: (s) => made(s.rows, 1, (i) => Math.max(...row(s, i))),
  powers: (s, most) => made(s.rows, s.cols, (i, j) => {
    const top = at(most, i, 0);
    return Math.exp(at(s, i, j) - (Number.isFinite(top) ? top : 0));
  }),
  sum: (a) => made(a.rows, 1, (i) => sum(row(a, i))),
  softmax: (s, e, total) => made(s.rows, s.cols, (i, j) => at(e, i, j) / (at(total, i, 0) || 1)),
  rotate: (x, angles) => made(x.rows, x.cols, (i, j) => {
    const [even, odd, angle] = [at(x, i, j - (j % 2)), at(x, i, j - (j % 2) + 1), at(angles, i, j >> 1)];
    return j % 2 ? even * Math.sin(angle) + odd * Math.cos(angle) : even * Math.cos(angle) - odd * Math.sin(angle);
  }),
  worst_of_ring: (a) => made(1, 1, () => Math.min(at(a, 0, 1), at(a, 1, 2), at(a, 2, 0))),
  opposite: (a) => made(a.rows, a.cols, (i, j) => 1 - at(a, i, j)),
  take: (x, order) => made(order.rows, x.cols, (i, j) => at(x, at(order, i, 0) - 1, j)),
};

function compute(table, sheet) {
  const inputs = table.inputs.map((name) => sheet[name]);
  if (EXPERIMENTS[table.operation]) {
    const rows = EXPERIMENTS[table.operation](...inputs.map((input) => Math.trunc(input.values[0])));
    table.shape = [rows.length, rows[0].length];
    return rows.flatMap((line) => Array.from(line));
  }
  if (table.operation === "split") {
    const [x, heads] = [matricesOf(inputs[0])[0], inputs[1].values[0]];
    const width = x.cols / heads;
    const parts = Array.from({ length: heads }, (_, h) => made(x.rows, width, (i, j) => at(x, i, h * width + j)));
    return parts.flatMap((part) => part.values);
  }
  const parts = inputs.map(matricesOf);
  if (table.operation === "concat") {
    const heads = parts[0];
    const width = heads[0].cols;
    return made(heads[0].rows, width * heads.length, (i, j) => at(heads[Math.floor(j / width)], i, j % width)).values;
  }
  const count = Math.max(...parts.map((part) => part.length));
  return Array.from({ length: count }, (_, head) => {
    const ofHead = parts.map((part) => part[head % part.length]);
    return OPERATIONS[table.operation](...ofHead).values;
  }).flat();
}

// Everything that follows from the tables that have changed, computed again.
function recompute(tables, sheet, changed) {
  const stale = new Set(changed);
  for (const table of tables) {
    if (!table.inputs.some((name) => stale.has(name))) continue;
    table.values = compute(table, sheet);
    stale.add(table.name);
  }
}
