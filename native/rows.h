// What is done with the scores of a row between the two products: shaped, hidden, made weights of.
#pragma once
#include "pack.h"

namespace regard::REGARD_LEVEL {

constexpr float LOG2E = 1.44269504088896341f;
constexpr float LN2 = 0.69314718055994531f;
constexpr float INFINITE = __builtin_inff();

// A row of the matrix: where its numbers lie.
struct Row {
  int64_t h, t;
  const int64_t* first;  // its ranges, if there are any
  const int64_t* last;
  const char* mask;
  const char* bias[MAX_BIAS];
  uint32_t draw;  // dropout's seed of the row
  bool mended;    // its query holds what is not finite: mend.h
};

REGARD_INLINE uint32_t mixed_one(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x21F0AAADu;
  x = (x ^ (x >> 15)) * 0x735A2D97u;
  return x ^ (x >> 15);
}

// Where the arrays of a batch entry begin: divided out once, since a row has no time for that.
struct Entry {
  int64_t b;
  const char *q, *k, *v, *mask, *sink, *bias[MAX_BIAS];
  char *out, *lse;
  const int64_t *first, *last;

  Entry(const Call& call, int64_t b) : b(b) {
    q = call.q.data + call.at(call.q.lead, b);
    k = call.k.data + call.at(call.k.lead, b);
    v = call.v.data + call.at(call.v.lead, b);
    out = call.out.data ? call.out.data + call.at(call.out.lead, b) : nullptr;
    lse = call.lse.data ? call.lse.data + call.at(call.lse.lead, b) : nullptr;
    mask = call.mask.data ? call.mask.data + call.at(call.mask.lead, b) : nullptr;
    sink = call.sink.data ? call.sink.data + call.at(call.sink.lead, b) : nullptr;
    const int64_t ranges = call.first ? call.at(call.range_lead, b) : 0;
    first = call.first ? call.first + ranges : nullptr;
    last = call.first ? call.last + ranges : nullptr;
    for (int i = 0; i < call.biases; ++i)
      bias[i] = call.bias[i].array.data + call.at(call.bias[i].array.lead, b);
  }
};

static void set_row(const Call& call, const Entry& entry, int64_t h, int64_t t, Row& row) {
  row.h = h;
  row.t = t;
  row.first = entry.first ? entry.first + t * call.ranges : nullptr;
  row.last = entry.first ? entry.last + t * call.ranges : nullptr;
  row.mask = entry.mask ? entry.mask + h * call.mask.head + t * call.mask.row : nullptr;
  for (int i = 0; i < call.biases; ++i)
    row.bias[i] = entry.bias[i] + h * call.bias[i].array.head + t * call.bias[i].array.row;
  if (call.threshold) {
    const uint64_t n = static_cast<uint64_t>(entry.b % call.drawn * call.H + h) *
                           static_cast<uint64_t>(call.all_rows) +
                       static_cast<uint64_t>(call.first_row + t);
    row.draw = mixed_one(mixed_one(static_cast<uint32_t>(n)) ^ static_cast<uint32_t>(n >> 32) ^
                         call.seed);
  }
}

REGARD_INLINE bool sees(const Call& call, const Row& row, int64_t j) {
  if (row.mask && !row.mask[j * call.mask.column]) return false;
  if (!row.first) return true;
  for (int64_t i = 0; i < call.ranges; ++i)
    if (row.first[i] <= j && j < row.last[i]) return true;
  return false;
}

// Whether one range of the row holds all of first … last.
REGARD_INLINE bool sees_all(const Call& call, const Row& row, int64_t first, int64_t last) {
  if (!row.first) return true;
  for (int64_t i = 0; i < call.ranges; ++i)
    if (row.first[i] <= first && last <= row.last[i]) return true;
  return false;
}

// The first key from `next` on that a range of the row holds; S if there is none.
REGARD_INLINE int64_t first_seen(const Call& call, const Row& row, int64_t next) {
  if (!row.first) return next;
  for (int64_t i = 0; i < call.ranges; ++i)
    if (row.last[i] > next) return at_least(row.first[i], next);
  return call.S;
}

// The end of the last range that begins at or before `reach` and holds anything from `low` on.
REGARD_INLINE int64_t seen_from(const Call& call, const Row& row, int64_t low, int64_t reach) {
  if (!row.first) return call.S;
  int64_t end = low;
  for (int64_t i = 0; i < call.ranges; ++i)
    if (row.first[i] <= reach && row.last[i] > row.first[i]) end = at_least(end, row.last[i]);
  return end;
}

// The stretches of keys between first and last that any of some rows sees, each with all that begins
// within a panel of its end: fn(low, high).  They begin with a panel, but for what is done already.
template <class Fn>
REGARD_INLINE void for_stretches(const Call& call, const Row* rows, int count, int64_t first,
                                 int64_t last, Fn fn) {
  int64_t next = first;
  while (next < last) {
    int64_t low = last;
    for (int i = 0; i < count; ++i) low = at_most(low, first_seen(call, rows[i], next));
    int64_t high = low;
    for (bool more = low < last; more;) {
      more = false;
      for (int i = 0; i < count; ++i) {
        const int64_t end = at_most(seen_from(call, rows[i], low, high + NR), last);
        more |= end > high;
        high = at_least(high, end);
      }
    }
    if (low >= high) return;
    fn(at_least(low / NR * NR, next), high);
    next = pieces_of(high, NR) * NR;
  }
}

REGARD_INLINE float number_at(const char* p, Dtype dtype) {
  if (dtype == Dtype::f64) {
    double x;
    std::memcpy(&x, p, 8);
    return static_cast<float>(x);
  }
  if (dtype == Dtype::f32) {
    float x;
    std::memcpy(&x, p, 4);
    return x;
  }
  uint16_t half[W] = {};
  std::memcpy(half, p, 2);
  float x[W];
  store(x, dtype == Dtype::bf16 ? from_bf16(half) : from_f16(half));
  return x[0];
}

// W numbers of a bias from key j on, `there` of which exist.
REGARD_INLINE F bias_at(const char* row, const Bias& bias, int64_t j, int64_t there) {
  const int64_t step = bias.array.column;
  if (step == 0) return all(number_at(row, bias.dtype));
  const char* p = row + j * step;
  if (there >= W && bias.dtype == Dtype::f32 && step == 4)
    return load(reinterpret_cast<const float*>(p));
  if (there >= W && bias.dtype != Dtype::f64 && step == 2) return widened(p, bias.dtype);
  float x[W] = {};
  for (int64_t i = 0; i < at_most(W, there); ++i) x[i] = number_at(p + i * step, bias.dtype);
  return load(x);
}

// Asks memory for what the scores of some rows will be biased by: these lie too far apart for a
// processor to guess them.
REGARD_INLINE void ask_for_biases(const Call& call, const Row* rows, int64_t count, int64_t first,
                                  int64_t last) {
  for (int k = 0; k < call.biases; ++k) {
    const int64_t step = call.bias[k].array.column;
    if (step == 0 || call.bias[k].array.row == 0) continue;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t b = first * step; b < last * step; b += 64)
        __builtin_prefetch(rows[i].bias[k] + b, 0, 2);
  }
}

// A finite number stays finite when it is counted in units of ln 2: masks are often filled with the
// lowest number there is, and a row of it alone is no row that may look at nothing.
REGARD_INLINE F kept_finite(F x, F most) {
  x = smaller(larger(mul(most, all(-1)), x), larger(mul(x, all(0.5f)), x));
  return larger(smaller(most, x), smaller(mul(x, all(0.5f)), x));
}

// Scores in units of ln 2: scaled, softcapped and biased.
static void shape_row(const Call& call, const Row& row, int64_t first, int64_t n, float* s) {
  const float scale = static_cast<float>(call.scale < 0 ? -call.scale : call.scale);
  const float cap = static_cast<float>(call.softcap);
  const F unit = all(LOG2E), straight = all(scale * LOG2E);
  const F most = all(2.3e38f / (call.biases > 1 ? call.biases : 1));
  for (int64_t j = 0; j < n; j += W) {
    F x = load(s + j);
    x = cap == 0 ? mul(x, straight) : mul(tanh(mul(x, all(scale / cap))), all(cap * LOG2E));
    for (int i = 0; i < call.biases; ++i)
      x = fma(kept_finite(bias_at(row.bias[i], call.bias[i], first + j, n - j), most), unit, x);
    store(s + j, x);
  }
}

// −∞ where the bytes say that the row may not look.
static void hide_by_bytes(const Call& call, const Row& row, int64_t first, int64_t n, float* s) {
  const int64_t step = call.mask.column;
  const char* bytes = row.mask + first * step;
  int64_t j = 0;
  if (step == 1)
    for (; j + 16 <= n; j += W) store(s + j, seen(load(s + j), (const uint8_t*)bytes + j));
  for (; j < n; ++j)
    if (!bytes[j * step]) s[j] = -INFINITE;
}

#if defined(__AVX512F__)
// The numbers of the vector that begins at j if they lie in from … from + count, else −∞.
REGARD_INLINE F within(F x, int64_t j, int64_t from, int64_t count) {
  const I lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const I at = _mm512_add_epi32(lanes, all_int(static_cast<uint32_t>(j - from)));
  const __mmask16 inside = _mm512_cmplt_epu32_mask(at, all_int(static_cast<uint32_t>(count)));
  return _mm512_mask_mov_ps(all(-INFINITE), inside, x);
}
#endif

REGARD_INLINE void hide(float* s, int64_t from, int64_t to) {
#if defined(__AVX512F__)
  // By whole vectors: to read one that was written in pieces takes long.
  if (const int64_t j = from / W * W; j < from && j + W <= to) {
    store(s + j, within(load(s + j), j, j, from - j));
    from = j + W;
  }
#endif
  for (int64_t j = from; j < to; ++j) s[j] = -INFINITE;
}

// −∞ between and beside the row's ranges, which are sorted and apart.
static void hide_by_ranges(const Call& call, const Row& row, int64_t first, int64_t n, float* s) {
#if defined(__AVX512F__)
  // Over all of them alike: a processor cannot guess where each row's range ends.
  if (call.ranges == 1) {
    const int64_t start = at_least(row.first[0] - first, 0);
    const int64_t count = at_least(at_most(row.last[0] - first, n) - start, 0);
    for (int64_t j = 0; j < n; j += W) store(s + j, within(load(s + j), j, start, count));
    return;
  }
#endif
  int64_t done = 0;
  for (int64_t i = 0; i < call.ranges && done < n; ++i) {
    const int64_t start = at_least(row.first[i] - first, 0), stop = row.last[i] - first;
    if (stop <= start) continue;
    hide(s, done, at_most(start, n));
    done = at_least(done, stop);
  }
  hide(s, at_least(done, 0), n);
}

REGARD_INLINE float row_largest(const float* s, int64_t n) {
  F a = load(s), b = load(s + W);
  for (int64_t j = NR; j < n; j += NR) {
    a = larger(a, load(s + j));
    b = larger(b, load(s + j + W));
  }
  return largest(larger(a, b));
}

// Scores to weights 2^(s · unit − shift): into the same row, as what meets the values; their sum.
template <class Dot, bool Dropout>
REGARD_INLINE F weigh(float* s, int64_t n, float unit, float shift, uint32_t draw,
                      const uint32_t* draws, uint32_t threshold) {
  F sum_a = zero(), sum_b = zero();
  const F u = all(unit), less = all(-shift);
  const I row = all_int(draw);
  for (int64_t j = 0; j < n; j += NR) {
    F a = exp2(fma(load(s + j), u, less)), b = exp2(fma(load(s + j + W), u, less));
    sum_a = add(sum_a, a);
    sum_b = add(sum_b, b);
    if constexpr (Dropout) {
      a = kept(a, mixed(exclusive_or(row, load_int(draws + j))), threshold);
      b = kept(b, mixed(exclusive_or(row, load_int(draws + j + W))), threshold);
    }
    Dot::put(s, j, a, b);
  }
  return add(sum_a, sum_b);
}

// `width` numbers times a factor, to where a row of an array lies.
REGARD_INLINE void write_row(char* to, Dtype dtype, int64_t width, const float* from,
                             float factor) {
  for (int64_t e = 0; e < width; e += W) {
    const F y = mul(load(from + e), all(factor));
    float buffer[W];
    char* here = to + e * size_of(dtype);
    const bool all_fit = e + W <= width;
    char* p = all_fit ? here : reinterpret_cast<char*>(buffer);
    if (dtype == Dtype::f32) store(reinterpret_cast<float*>(p), y);
    else if (dtype == Dtype::bf16) to_bf16(reinterpret_cast<uint16_t*>(p), y);
    else to_f16(reinterpret_cast<uint16_t*>(p), y);
    if (!all_fit) std::memcpy(here, buffer, (width - e) * size_of(dtype));
  }
}

// Weights too small for a normal float are 0 while this lives: a processor takes a hundred times as
// long for what is not normal, and far keys under ALiBi have nothing else.
struct SmallIsZero {
#if defined(__SSE2__)
  unsigned before = __builtin_ia32_stmxcsr();
  SmallIsZero() { __builtin_ia32_ldmxcsr(before | 0x8000u); }
  ~SmallIsZero() { __builtin_ia32_ldmxcsr(before); }
#endif
};

}  // namespace regard::REGARD_LEVEL
