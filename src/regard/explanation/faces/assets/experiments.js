// Experiments on numbers drawn at random, and counts: experiments.py in the page.

function uniforms(count, seed, start = 0) {
  const first = Math.imul(seed, 0x9e3779b9) >>> 0;
  return Float64Array.from({ length: count }, (_, i) => {
    let x = (start + i + first) >>> 0;
    x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
    x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
    return (((x ^ (x >>> 16)) >>> 0) + 0.5) / 2 ** 32;
  });
}

function normals(count, seed, start = 0) {
  const u = uniforms(2 * count, seed, 2 * start);
  return Float64Array.from({ length: count }, (_, i) =>
    Math.sqrt(-2 * Math.log(u[2 * i])) * Math.cos(2 * Math.PI * u[2 * i + 1]));
}

const drawnMatrix = (rows, cols, seed, by = 1) => ({ rows, cols, values: normals(rows * cols, seed).map((x) => x * by) });
const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;
const varianceOf = (numbers) => {
  const middle = mean(numbers);
  return numbers.reduce((a, b) => a + (b - middle) ** 2, 0) / numbers.length;
};
const deviation = (numbers) => Math.sqrt(varianceOf(numbers));
const square = (numbers) => Math.sqrt(numbers.reduce((a, b) => a + b * b, 0) / numbers.length);
const sinusoid = (i, j, d) => (j % 2 ? Math.cos : Math.sin)(i / 10000 ** ((j - (j % 2)) / d));

function softmaxOf(numbers) {
  const most = Math.max(...numbers);
  const e = numbers.map((x) => Math.exp(x - most));
  const total = sum(e);
  return e.map((x) => x / total);
}

function plusProduct(x, y, w) { // x + y W
  const out = Float64Array.from(x.values);
  for (let i = 0; i < x.rows; i++) {
    for (let k = 0; k < y.cols; k++) {
      const a = y.values[i * y.cols + k];
      for (let j = 0; j < w.cols; j++) out[i * w.cols + j] += a * w.values[k * w.cols + j];
    }
  }
  return { ...x, values: out };
}

function normalisedRows(x) {
  const out = new Float64Array(x.values.length);
  for (let i = 0; i < x.rows; i++) {
    const line = x.values.slice(i * x.cols, (i + 1) * x.cols);
    const [middle, spread] = [mean(line), Math.sqrt(varianceOf(line) + 1e-5)];
    line.forEach((value, j) => { out[i * x.cols + j] = (value - middle) / spread; });
  }
  return { ...x, values: out };
}

function normRows(layers, width) {
  let bare = drawnMatrix(16, width, 0);
  let calm = bare;
  const rows = [[0, varianceOf(bare.values), varianceOf(calm.values)]];
  for (let layer = 1; layer <= layers; layer++) {
    const w = drawnMatrix(width, width, layer, 1 / Math.sqrt(width));
    bare = plusProduct(bare, bare, w);
    calm = plusProduct(calm, normalisedRows(calm), w);
    rows.push([layer, varianceOf(bare.values), varianceOf(calm.values)]);
  }
  return rows;
}

const part = (number, by, least = 1) => Math.max(Math.floor(number / by), least);

const EXPERIMENTS = {
  drawn: (width, keys, draws) => [part(width, 16), part(width, 4), width].map((d) => {
    const [q, k] = [normals(draws * d, 1), normals(draws * keys * d, 2)];
    const dots = [];
    for (let n = 0; n < draws; n++) {
      for (let j = 0; j < keys; j++) {
        let total = 0;
        for (let c = 0; c < d; c++) total += q[n * d + c] * k[(n * keys + j) * d + c];
        dots.push(total);
      }
    }
    const largest = (scale) => mean(Array.from({ length: draws }, (_, n) =>
      Math.max(...softmaxOf(dots.slice(n * keys, (n + 1) * keys).map((s) => s * scale)))));
    return [d, varianceOf(dots), deviation(dots), Math.sqrt(d), largest(1), largest(1 / Math.sqrt(d)), largest(1 / d)];
  }),
  best_of: (tries) => {
    const [w, size] = [normals(tries * 9, 1), uniforms(tries, 2)];
    let [best, found] = [-1, null];
    for (let n = 0; n < tries; n++) {
      const rows = [0, 1, 2].map((i) => Array.from(w.slice(9 * n + 3 * i, 9 * n + 3 * i + 3), (x) => x * (0.5 + 3.5 * size[n])));
      const worst = Math.min(...rows.map((a, i) => softmaxOf(rows.map((b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2]))[(i + 1) % 3]));
      if (worst > best) [best, found] = [worst, rows];
    }
    return found;
  },
  head_costs: (n, d) => [1, 2, 4, 8].map((h) => [h, Math.floor(d / h), 2 * n * n * Math.floor(d / h) * h, h * 2 * n * n * d]),
  lengths: (d) => [part(d, 2), d, 2 * d, 8 * d].map((n) => [n, 4 * n * d ** 2, 2 * n * n * d, 4 * n * n]),
  sizes: (d) => [[d, 3 * d ** 2], [2 * d, 6 * d ** 2]],
  cosine: (d) => {
    const words = normals(512 * d, 3);
    const each = Array.from({ length: 512 }, (_, i) => {
      let [dot, a, b] = [0, 0, 0];
      for (let j = 0; j < d; j++) {
        const [x, p] = [words[i * d + j], sinusoid(i, j, d)];
        dot += x * p;
        a += x * x;
        b += p * p;
      }
      return Math.abs(dot / Math.sqrt(a * b));
    });
    return [[mean(each)]];
  },
  embeddings: (width) => [part(width, 32, 2), part(width, 8, 2), part(width, 2, 2), width].map((d) => {
    const word = square(normals(200 * d, 4)) / Math.sqrt(d);
    const place = square(Float64Array.from({ length: 200 * d }, (_, i) => sinusoid(Math.floor(i / d), i % d, d)));
    return [d, word, place, word * Math.sqrt(d), place / word];
  }),
  kinds: (n, width) => [part(width, 8), part(width, 2), width].map((d) => {
    const by = 1 / Math.sqrt(d);
    const [q, k, w, u, v] = [
      drawnMatrix(n, d, 1), drawnMatrix(n, d, 2), drawnMatrix(d, d, 3, by), drawnMatrix(d, d, 4, by), drawnMatrix(1, d, 5, by),
    ];
    const [a, b, dots] = [times(q, w), times(k, u), OPERATIONS.dots(q, k).values];
    const added = [];
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        let total = 0;
        for (let c = 0; c < d; c++) total += Math.tanh(a.values[i * d + c] + b.values[j * d + c]) * v.values[c];
        added.push(total);
      }
    }
    return [d, n * n * d, 2 * n * d * d + n * n * d, n * n * d, deviation(dots), deviation(dots) * by, deviation(added)];
  }),
  norms: normRows,
  norm_ends: (layers, width) => {
    const rows = normRows(layers, width);
    return [[...rows.at(-1), rows[1][1] / rows[0][1]]];
  },
  hides: (hidden) => [0, 1, 2].map(() => [0, 1, 2].map((key) => (key < 3 - hidden ? 1 : 0))),
};
