// Tables, the arrows between their numbers, and the figure.

const MOST = 64; // rows and columns that are drawn
const SVG = "http://www.w3.org/2000/svg";

function element(tag, { text, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  node.append(...children);
  return node;
}

function drawn(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function names(kind, count) {
  if (["token", "query", "key"].includes(kind)) return DATA.tokens.slice(0, count);
  if (kind === "feature") return Array.from({ length: count }, (_, i) => String(i + 1));
  const named = say(`columns.${kind}`)?.split("|") ?? [];
  return Array.from({ length: count }, (_, i) => named[i] ?? "");
}

const key = (table, head, i, j) => `${table}/${head}/${i}/${j}`;

function buildTable(table, m, head, count) {
  const [rows, cols] = [Math.min(m.rows, MOST), Math.min(m.cols, MOST)];
  const title = count > 1 ? `${table.symbol} · ${say("explain.head", { head: head + 1 })}` : table.symbol;
  const caption = element("caption", { text: `${title} ` });
  caption.append(element("small", { text: table.shape.join(" × ") }));
  const left = names(table.rows, m.rows);
  const top = names(table.columns, m.cols);
  const headRow = element("tr", {}, element("td"));
  for (let j = 0; j < cols; j++) headRow.append(element("th", { scope: "col", text: top[j] ?? "" }));
  const body = element("tbody");
  for (let i = 0; i < rows; i++) {
    const line = element("tr", {}, element("th", { scope: "row", text: left[i] ?? "" }));
    for (let j = 0; j < cols; j++) {
      const cell = element("td", { tabindex: "-1", "data-cell": key(table.name, head, i, j) });
      line.append(cell);
    }
    body.append(line);
  }
  const whole = element("table", { "data-table": table.name }, caption, element("thead", {}, headRow), body);
  const holder = element("div", { class: "table" }, whole);
  if (m.rows > rows || m.cols > cols) {
    holder.append(element("p", { class: "soft hint", text: say("explain.page-cut", { rows, cols }) }));
  }
  return holder;
}

// The numbers of every drawn table, in place.
function fillTables(step) {
  for (const name of step.shown) {
    const table = SHEET[name];
    const unlike = ["token", "query", "key", "feature", ""].indexOf(table.columns) < 0;
    matricesOf(table).forEach((m, head) => {
      const [rows, cols] = [Math.min(m.rows, MOST), Math.min(m.cols, MOST)];
      const shown = made(rows, cols, (i, j) => at(m, i, j));
      const byColumn = unlike && Array.from({ length: cols }, (_, j) => column(down(shown, j)));
      const flat = unlike ? null : column(shown.values);
      for (let i = 0; i < rows; i++) {
        for (let j = 0; j < cols; j++) {
          const cell = CELLS.get(key(name, head, i, j));
          const value = at(m, i, j);
          cell.textContent = unlike ? byColumn[j][i] : flat[i * cols + j];
          cell.dataset.value = String(value);
          const rowName = cell.parentElement.firstElementChild.textContent || i + 1;
          cell.setAttribute("aria-label", say("explain.page-cell", {
            symbol: table.symbol, row: rowName, column: names(table.columns, m.cols)[j] || j + 1,
            value: written(value),
          }));
          const share = table.operation === "softmax" ? Math.round(value * 60) / 100 : 0;
          cell.style.background = share ? `rgb(var(--heat) / ${share})` : "";
        }
      }
    });
  }
}

// The drawn numbers that a number comes from: those it is computed from, and those further back.
function origins(name, head, i, j) {
  const found = new Map(); // cell → level; 0 for what is not drawn
  let front = [[sources(SHEET[name], head, i, j), 1]];
  while (front.length) { // level by level, so that a number gets the nearest of its levels
    const next = [];
    for (const [from, level] of front) {
      for (const [table, h, r, c] of from) {
        const [rows, cols] = SHEET[table].shape.slice(-2);
        for (let a = r ?? 0; a < (r === null ? Math.min(rows, MOST) : r + 1); a++) {
          for (let b = c ?? 0; b < (c === null ? Math.min(cols, MOST) : c + 1); b++) {
            const id = key(table, h, a, b);
            if (found.has(id)) continue;
            found.set(id, CELLS.has(id) ? level : 0);
            next.push([sources(SHEET[table], h, a, b), CELLS.has(id) ? level + 1 : level]);
          }
        }
      }
    }
    front = next;
  }
  return found;
}

// How much of a weighted sum a number of the weights or the values gives; 1 elsewhere.
function shareOf(table, head, i, id) {
  const weights = table.operation === "mix" && SHEET[table.inputs[0]];
  if (!weights || weights.operation !== "softmax") return 1;
  const [name, , r, c] = id.split("/");
  const parts = matricesOf(weights);
  return at(parts[head % parts.length], i, Number(name === weights.name ? c : r));
}

// The key that gives most to a weighted sum.
function mostOf(table, head, i) {
  const weights = table.operation === "mix" && SHEET[table.inputs[0]];
  if (!weights || weights.operation !== "softmax") return "";
  const parts = matricesOf(weights);
  const shares = row(parts[head % parts.length], i);
  const most = shares.indexOf(Math.max(...shares));
  const key = names("key", shares.length)[most] || most + 1;
  return ` · ${say("explain.page-most", { key, weight: written(shares[most]) })}`;
}

function clearMarks() {
  for (const cell of document.querySelectorAll("td.from, td.far, td.here")) {
    cell.classList.remove("from", "far", "here");
  }
  document.getElementById("arrows").replaceChildren();
}

// Marks the cell and what it comes from, draws the arrows, and says the sum.
function point(cell) {
  clearMarks();
  const [name, head, i, j] = cell.dataset.cell.split("/").map((part, k) => (k ? Number(part) : part));
  cell.classList.add("here");
  const arrows = document.getElementById("arrows");
  const marker = drawn("marker", {
    id: "tip", viewBox: "0 0 8 8", refX: "7", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto",
  });
  marker.append(drawn("path", { d: "M0 0 L8 4 L0 8 z" }));
  arrows.append(marker);
  const frame = document.getElementById("tables").getBoundingClientRect();
  const middle = (node) => {
    const box = node.getBoundingClientRect();
    return [box.left + box.width / 2 - frame.left, box.top + box.height / 2 - frame.top];
  };
  const [x, y] = middle(cell);
  for (const [id, level] of origins(name, head, i, j)) {
    const from = CELLS.get(id);
    if (!level || !from || from === cell) continue;
    from.classList.add(level === 1 ? "from" : "far");
    const share = level > 1 ? 0 : shareOf(SHEET[name], head, i, id);
    if (!share) continue; // further back, or of no weight
    const [a, b] = middle(from);
    const bend = Math.min(40, Math.abs(x - a) / 4 + 8);
    arrows.append(drawn("path", {
      d: `M${a} ${b} Q${(a + x) / 2} ${Math.min(b, y) - bend} ${x} ${y}`, "marker-end": "url(#tip)",
      "data-from": id, "stroke-opacity": 0.3 + 0.7 * share,
    }));
  }
  const table = SHEET[name];
  document.getElementById("said").textContent =
    `${table.symbol}[${i + 1}, ${j + 1}] = ${worked(table, head, i, j)}${mostOf(table, head, i)}`;
}

// A number at an axis: three digits will do.
const short = (value) => written(Number(value.toPrecision(3))).replace(/\B(?=(\d{3})+$)/, ",");

// The figure: lines over a column of numbers, or a bar a row.
function drawChart(chart) {
  const place = document.getElementById("chart");
  place.hidden = !chart; // before it is measured
  place.replaceChildren();
  if (!chart) return;
  const m = matricesOf(SHEET[chart.table])[0];
  const table = SHEET[chart.table];
  const labels = names(table.columns, m.cols);
  const width = Math.min(640, place.clientWidth || 640); // its letters keep their size on a phone
  const [height, left, base] = [300, 60, 260];
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const series = chart.ys.map((c) => down(m, c));
  const finite = series.flat().filter(Number.isFinite);
  const lift = chart.log ? (v) => Math.log10(Math.max(v, 1e-12)) : (v) => v;
  const low = chart.log ? Math.min(...finite.map(lift)) : Math.min(0, ...finite);
  const high = Math.max(...finite.map(lift), low + 1e-9);
  const y = (v) => base - ((lift(v) - low) / (high - low)) * (base - 30);
  const count = m.rows;
  const x = (i) => left + ((i + 0.5) / count) * (width - left - 10);
  svg.append(drawn("line", { class: "axis", x1: left, x2: width - 10, y1: y(chart.log ? 10 ** low : 0), y2: y(chart.log ? 10 ** low : 0) }));
  const decades = chart.log ? Math.max(1, Math.ceil((high - low) / 6)) : 0;
  const marks = [low, high];
  for (let d = Math.ceil(low + 0.3); chart.log && d < high - 0.3; d += decades) marks.push(d);
  for (const v of chart.log ? marks.map((d) => 10 ** d) : marks) {
    svg.append(drawn("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, short(v)));
  }
  const rowNames = names(table.rows, m.rows);
  const legend = (k) => left + k * ((width - left) / series.length);
  const every = Math.ceil(count / (width / 38));
  for (let i = 0; i < count; i += every) {
    const label = chart.x >= 0 ? written(at(m, i, chart.x)) : rowNames[i];
    svg.append(drawn("text", { x: x(i), y: base + 18, "text-anchor": "middle" }, label));
  }
  if (chart.x >= 0) {
    svg.append(drawn("text", { x: width - 10, y: base + 35, "text-anchor": "end" }, labels[chart.x]));
  }
  series.forEach((values, k) => {
    const second = ["", " second", " third"][k % 3];
    if (chart.log) {
      const d = values.map((v, i) => `${i ? "L" : "M"}${x(i)} ${y(v)}`).join("");
      svg.append(drawn("path", { class: `line${second}`, d }));
    } else {
      const bar = (width - left - 10) / count / (series.length + 0.6);
      values.forEach((v, i) => {
        const from = x(i) + (k - series.length / 2) * bar;
        svg.append(drawn("rect", {
          class: `bar${second}`, x: from, width: bar * 0.9, y: Math.min(y(v), y(0)), height: Math.abs(y(v) - y(0)),
        }));
      });
    }
    const name = labels[chart.ys[k]];
    svg.append(drawn("rect", { class: `bar${second}`, x: legend(k), y: 3, width: 12, height: 12 }));
    svg.append(drawn("text", { x: legend(k) + 17, y: 14 }, name));
  });
  const told = chart.ys.map((c, k) => `${labels[c]}: ${series[k].map(written).join(", ")}`).join("; ");
  svg.setAttribute("aria-label", told);
  place.append(svg);
}
