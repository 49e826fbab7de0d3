// One piece of work: some rows of one head by all the keys that they may see.
#pragma once
#include "pipeline.h"

namespace regard::REGARD_LEVEL {

// Where a part leaves what it has found: outputs, then maxima, then sums.
struct Partial {
  float *out, *most, *sum;
  Partial(const Job& job, int64_t strip, int64_t part) {
    const Cut& cut = job.cut;
    const int64_t n = cut.strip_rows, each = n * cut.out_step + 2 * n;
    out = job.partial + (strip * cut.parts + part) * each;
    most = out + n * cut.out_step;
    sum = most + n;
  }
};

// Of a group of rows: no row sees a key outside of first … last, and every row all of whole … end.
struct Reach {
  int64_t first = 0, last = 0, whole = 0, end = 0;

  void of(const Call& call, const Row* rows, int count) {
    first = whole = 0;
    last = end = call.S;
    if (!rows[0].first) return;
    first = call.S;
    last = 0;
    for (int i = 0; i < count; ++i)
      for (int64_t k = 0; k < call.ranges; ++k) {
        const int64_t from = rows[i].first[k], to = rows[i].last[k];
        whole = at_least(whole, from);
        end = at_most(end, to);
        if (from >= to) continue;
        first = at_most(first, from);
        last = at_least(last, to);
      }
  }
};

// All tiles of a group of rows within the keys first … last.
template <class Kind, class Tiling>
static void group(const Job& job, Scratch& x, Tiling& tiling, const Reach& reach, int r, int count,
                  int64_t first, int64_t last) {
  auto tiles = [&](int64_t low, int64_t high) {
    for (; low < high; low += Kind::KEYS_AT_ONCE)
      tiling.add(r, count, low, at_most(low + Kind::KEYS_AT_ONCE, high));
  };
  if (last <= reach.first || reach.last <= first) return;
  if (reach.whole <= first && last <= reach.end) return tiles(first, last);
  for_stretches(job.call, x.rows + r, count, first, last, tiles);
}

// The answer of a row: `out` are its values, weighted by 2^(score − most), and `sum` the weights'.
static void finish_row(const Call& call, const Row& row, const Entry& entry, const float* out,
                       float most, float sum) {
  float factor = static_cast<float>(call.kept);
  if (entry.sink) {
    float sink;
    std::memcpy(&sink, entry.sink + row.h * call.sink.head, 4);
    sink *= LOG2E;
    // An empty row has the sink alone; from infinite ones the formula shifts nothing.
    float top = sum == 0 || sink > most ? sink : most;
    if (!(__builtin_fabsf(top) < INFINITE)) top = 0;
    const float down = sum == 0 ? 0.0f : __builtin_exp2f(most - top);
    sum = sum == 0 ? __builtin_exp2f(sink - top) : sum * down + __builtin_exp2f(sink - top);
    factor *= down;
    most = top;
  }
  const bool empty = sum == 0;
  if (entry.lse) {
    char* to = entry.lse + row.h * call.lse.head + row.t * call.lse.row;
    // A gradient is made of exp(s − lse): it wants more of lse than float32 has.
    const double lse = empty ? -INFINITE : (most + __builtin_log2(sum)) * 0.6931471805599453;
    const float narrow = static_cast<float>(lse);
    if (call.lse_dtype == Dtype::f64) std::memcpy(to, &lse, 8);
    else std::memcpy(to, &narrow, 4);
  }
  if (entry.out)
    write_row(entry.out + row.h * call.out.head + row.t * call.out.row, call.dtype, call.E, out,
              empty ? 0.0f : factor / sum);
}

template <class Kind>
static void compute(const Job& job, int64_t piece, char* scratch) {
  const Call& call = job.call;
  const Cut& cut = job.cut;
  Scratch& x = *reinterpret_cast<Scratch*>(scratch);
  const int64_t strip = piece / cut.parts, part = piece % cut.parts;
  const Place at(job, strip, part);
  const int count = static_cast<int>(at.to - at.from);
  const Entry& entry = at.entry;
  int64_t h = at.g * (call.H / call.G) + at.from / call.T, t = at.from % call.T;
  int64_t low = at.last_key, high = at.first_key;
  for (int i = 0; i < count; ++i, ++t) {
    if (t == call.T) {
      t = 0;
      ++h;
    }
    Row& row = x.rows[i];
    set_row(call, entry, h, t, row);
    const char* q = entry.q + h * call.q.head + t * call.q.row;
    row.mended = pack_query<typename Kind::Dot>(call, cut, q, x.q + i * LDQ);
    if (!row.first) {
      low = at.first_key;
      high = at.last_key;
    }
    for (int64_t k = 0; row.first && k < call.ranges; ++k)
      if (row.first[k] < row.last[k]) {
        low = at_most(low, row.first[k]);
        high = at_least(high, row.last[k]);
      }
  }
  low = at_least(low, at.first_key) / NR * NR;
  high = at_most(high, at.last_key);
  std::memset(x.out, 0, count * cut.out_step * sizeof(float));
  std::memset(x.sums, 0, count * W * sizeof(float));
  for (float& most : x.most) most = -INFINITE;

  Kind::begin();
  typename TilingOf<Kind>::type tiling{job, at, x};
  const int groups = static_cast<int>(pieces_of(count, Kind::M));
  int begins[Kind::STRIP / Kind::M + 1] = {};
  Reach reach[Kind::STRIP / Kind::M];
  for (int i = 0; i < groups; ++i) {
    begins[i + 1] = Kind::DEEP > 1 ? (int)at_most((i + 1) * Kind::M, count) : count * (i + 1) / groups;
    reach[i].of(call, x.rows + begins[i], begins[i + 1] - begins[i]);
  }
  for (int64_t first = low; first < high; first += Kind::BLOCK)
    for (int i = 0; i < groups; ++i)
      group<Kind>(job, x, tiling, reach[i], begins[i], begins[i + 1] - begins[i], first,
                  at_most(first + Kind::BLOCK, high));
  tiling.finish();
  Kind::end();

  const bool shaped = call.softcap != 0 || call.biases || call.scale == 0;
  const float unit = shaped ? 1.0f : static_cast<float>(__builtin_fabs(call.scale)) * LOG2E;
  for (int i = 0; i < count; ++i) {
    const float sum = total(load(x.sums + i * W));
    float most = x.most[i];
    most = __builtin_fabsf(most) < INFINITE ? most * unit : 0;
    if (cut.parts == 1) {
      finish_row(call, x.rows[i], entry, x.out + i * cut.out_step, most, sum);
      continue;
    }
    const Partial to(job, strip, part);
    std::memcpy(to.out + i * cut.out_step, x.out + i * cut.out_step, cut.out_step * 4);
    to.most[i] = most;
    to.sum[i] = sum;
  }
}

// The parts of a strip's keys, joined by their sums, in their order.
static void merge_strip(const Job& job, int64_t strip) {
  const Call& call = job.call;
  const Cut& cut = job.cut;
  const Place at(job, strip, 0);
  const Entry& entry = at.entry;
  for (int64_t i = 0; i < at.to - at.from; ++i) {
    float most = -INFINITE, sum = 0;
    alignas(64) float out[WIDEST] = {};
    for (int64_t part = 0; part < cut.parts; ++part) {
      const Partial one(job, strip, part);
      if (one.sum[i] != 0 && one.most[i] > most) most = one.most[i];
    }
    for (int64_t part = 0; part < cut.parts; ++part) {
      const Partial one(job, strip, part);
      if (one.sum[i] == 0) continue;  // this part of the keys is hidden from the row
      const float share = __builtin_exp2f(one.most[i] - most);
      sum += one.sum[i] * share;
      for (int64_t e = 0; e < cut.out_step; ++e) out[e] += one.out[i * cut.out_step + e] * share;
    }
    const int64_t n = at.from + i;
    Row row;
    set_row(call, entry, at.g * (call.H / call.G) + n / call.T, n % call.T, row);
    finish_row(call, row, entry, out, most, sum);
  }
}

}  // namespace regard::REGARD_LEVEL
