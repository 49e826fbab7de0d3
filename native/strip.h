// One piece of work: some rows of one head by the keys that they may see, a tile at a time.
//
// The softmax is online: of what has been seen of a row its maximum, the sum of its weights and its
// output are kept, and scaled down when a greater score comes.
//
// Source: Milakov and Gimelshein 2018; Dao et al. 2022 (FlashAttention), section 3.1.
#pragma once
#include "direct.h"

namespace regard::REGARD_LEVEL {

constexpr int MOST_ROWS = 128;  // of a strip, whatever the kind

struct Scratch {
  alignas(64) float q[MOST_ROWS * LDQ];
  alignas(64) float s[32 * LDS];
  alignas(64) float out[MOST_ROWS * WIDEST];
  alignas(64) float sums[MOST_ROWS * W];  // of weights, W of them a row
  alignas(64) float most[MOST_ROWS];
  alignas(64) float shrink[32], largest[32];  // of the rows of one group
  Row rows[MOST_ROWS];
  int64_t low[MOST_ROWS], high[MOST_ROWS];
};

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

// Σ w v of the pairs that are allowed: where a hidden value is NaN, 0 times it must not count.
template <class Dot>
static void careful_mix(const Job& job, const Place& at, const Row& row, const float* s,
                        int64_t first, int64_t n, float shrink, float* out) {
  const Call& call = job.call;
  for (int64_t e = 0; e < call.E; ++e) out[e] *= shrink;
  for (int64_t j = first; j < at_most(first + n, call.S); ++j) {
    if (!sees(call, row, j)) continue;
    float w = s[j - first];
    if constexpr (Dot::terms == 2) {
      uint16_t half;
      std::memcpy(&half, reinterpret_cast<const uint16_t*>(s) + (j - first), 2);
      const uint32_t bits = static_cast<uint32_t>(half) << 16;
      std::memcpy(&w, &bits, 4);
    }
    const char* v = Place::value(call, at, j);
    for (int64_t e = 0; e < call.E; ++e)
      out[e] += w * number_at(v + e * size_of(call.dtype), call.dtype);
  }
}

// The tile of `count` rows from r on by the keys first … last; first begins a panel.
template <class Kind>
static void tile(const Job& job, const Place& at, Scratch& x, int r, int count, int64_t first,
                 int64_t last) {
  using Dot = typename Kind::Dot;
  const Call& call = job.call;
  const Cut& cut = job.cut;
  const int64_t n = last - first, full = pieces_of(n, NR) * NR;
  Kind::products(job, at, count, x.q + r * LDQ, first, full, x.s);

  const bool shaped = call.softcap != 0 || call.biases || call.scale == 0;
  const float unit = shaped ? 1.0f : static_cast<float>(__builtin_fabs(call.scale)) * LOG2E;
  bool whole = !call.mask.data;
  for (int i = 0; whole && i < count; ++i) whole = sees_all(call, x.rows[r + i], first, last);
  for (int i = 0; i < count; ++i) {
    const Row& row = x.rows[r + i];
    float* s = x.s + i * LDS;
    if (shaped) shape_row(call, row, first, n, s);
    if (row.mask) hide_by_bytes(call, row, first, n, s);
    if (!whole && row.first) hide_by_ranges(call, row, first, n, s);
    hide(s, n, full);
    x.largest[i] = row_largest(s, full);
  }
  // The new maximum of each row, what it shifts the scores by, and by how much it shrinks what was
  // added up so far.  Without a finite maximum (nothing seen yet; or ∞ or NaN, and then the row will
  // be NaN anyway) nothing is shifted.
  alignas(64) float before[32], found[32], shift[32];
  bool shrinks = false;
  for (int i = 0; i < 32; ++i) before[i] = i < count ? x.most[r + i] : 0;
  for (int i = 0; i < count; i += W)
    store(found + i, larger(load(x.largest + i), load(before + i)));
  for (int i = 0; i < count; ++i) x.most[r + i] = found[i];
  for (int i = 0; i < 32; ++i) shift[i] = __builtin_fabsf(found[i]) < INFINITE ? found[i] * unit : 0;
  for (int i = 0; i < count; i += W)
    store(x.shrink + i, exp2(fma(load(before + i), all(unit), sub(zero(), load(shift + i)))));
  for (int i = 0; i < count; ++i) shrinks |= x.shrink[i] != 1;
  const uint32_t threshold = static_cast<uint32_t>(call.threshold);
  for (int i = 0; i < count; ++i) {
    float *s = x.s + i * LDS, *sum = x.sums + (r + i) * W;
        const F more = call.threshold ? weigh<Dot, true>(s, full, unit, shift[i], x.rows[r + i].draw,
                                                     job.draws + first, threshold)
                                  : weigh<Dot, false>(s, full, unit, shift[i], 0, nullptr, 0);
    store(sum, fma(load(sum), all(x.shrink[i]), more));
  }

  float* out = x.out + r * cut.out_step;
  bool careful = false;
  if (!whole && Kind::PACKS) {
    const uint8_t* unclean = job.unclean + at.head * cut.panels;
    for (int64_t p = first / NR; p < pieces_of(last, NR); ++p) careful |= unclean[p] != 0;
  } else if (!whole) {
    for (int64_t j = first; j < last && !careful; ++j)
      careful = !finite(Place::value(call, at, j), call.dtype, call.E);
  }
  if (careful) {
    for (int i = 0; i < count; ++i)
      careful_mix<Dot>(job, at, x.rows[r + i], x.s + i * LDS, first, n, x.shrink[i],
                       out + i * cut.out_step);
    return;
  }
  if constexpr (!Kind::SHRINKS) {
    for (int i = 0; shrinks && i < count; ++i)
      for (int64_t e = 0; e < cut.out_step; e += W) {
        float* o = out + i * cut.out_step + e;
        store(o, mul(load(o), all(x.shrink[i])));
      }
  }
  Kind::mix(job, at, count, x.s, first, full, x.shrink, out);
}

// All tiles of a group of rows within the keys first … last.
template <class Kind>
static void group(const Job& job, const Place& at, Scratch& x, int r, int count, int64_t first,
                  int64_t last) {
  int64_t next = first;
  while (next < last) {
    // The next stretch that any row sees, with all that begins within a panel of its end.
    int64_t low = last;
    for (int i = r; i < r + count; ++i)
      low = at_most(low, first_seen(job.call, x.rows[i], next));
    int64_t high = low;
    for (bool more = low < last; more;) {
      more = false;
      for (int i = r; i < r + count; ++i) {
        const int64_t end = at_most(seen_from(job.call, x.rows[i], low, high + NR), last);
        more |= end > high;
        high = at_least(high, end);
      }
    }
    if (low >= high) return;
    low = at_least(low / NR * NR, next);
    for (; low < high; low += Kind::KEYS_AT_ONCE)
      tile<Kind>(job, at, x, r, count, low, at_most(low + Kind::KEYS_AT_ONCE, high));
    next = pieces_of(high, NR) * NR;
  }
}

REGARD_INLINE void write_row(const Call& call, const Row& row, const Entry& entry,
                             const float* out, float factor) {
  char* to = entry.out + row.h * call.out.head + row.t * call.out.row;
  for (int64_t e = 0; e < call.E; e += W) {
    const F y = mul(load(out + e), all(factor));
    float buffer[W];
    char* here = to + e * size_of(call.dtype);
    const bool all_fit = e + W <= call.E;
    char* p = all_fit ? here : reinterpret_cast<char*>(buffer);
    if (call.dtype == Dtype::f32) store(reinterpret_cast<float*>(p), y);
    else if (call.dtype == Dtype::bf16) to_bf16(reinterpret_cast<uint16_t*>(p), y);
    else to_f16(reinterpret_cast<uint16_t*>(p), y);
    if (!all_fit) std::memcpy(here, buffer, (call.E - e) * size_of(call.dtype));
  }
}

// The answer of a row: `out` are its values, weighted by 2^(score − most), and `sum` the weights'.
static void finish_row(const Call& call, const Row& row, const Entry& entry, const float* out,
                       float most, float sum) {
  float factor = static_cast<float>(call.kept);
  if (call.sink.data) {
    float sink;
    std::memcpy(&sink, call.sink.data + row.h * call.sink.head, 4);
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
    const float lse = empty ? -INFINITE : (most + __builtin_log2f(sum)) * LN2;
    std::memcpy(to, &lse, 4);
  }
  if (entry.out) write_row(call, row, entry, out, empty ? 0.0f : factor / sum);
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
    pack_query<typename Kind::Dot>(call, cut, q, x.q + i * LDQ);
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
  const int groups = static_cast<int>(pieces_of(count, Kind::M));
  for (int64_t first = low; first < high; first += Kind::KEYS_AT_ONCE)
    for (int i = 0; i < groups; ++i) {
      const int a = Kind::DEEP > 1 ? i * Kind::M : count * i / groups;
      const int b = Kind::DEEP > 1 ? (int)at_most(a + Kind::M, count) : count * (i + 1) / groups;
      group<Kind>(job, at, x, a, b - a, first, at_most(first + Kind::KEYS_AT_ONCE, high));
    }
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
