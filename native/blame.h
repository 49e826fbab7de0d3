// Between the products of the backward pass: scores and products of a row to its weights P and to the
// gradient of its scores, dS = P (dP − delta).
#pragma once
#include "gradients.h"
#include "grow.h"

namespace regard::REGARD_LEVEL {

// What a row of a block is asked for beside its place.
struct Asked {
  float shift, rest;  // lse in units of ln 2, as a sum; ∞ of a row that sees nothing
  float delta;  // do · o, less the cotangent of lse
  char* bias[MAX_BIAS];
};

struct Weighing {
  F unit, factor;
  uint32_t threshold;
  Weighing(const Call& call, float unit) : unit(all(unit)), factor(all((float)call.kept)),
                                           threshold((uint32_t)call.threshold) {}

  // From a score and dP to the weight that meets the values, and to dS.
  template <bool Dropout>
  __attribute__((always_inline)) void one(F& s, F& dp, F less, F rest, F delta, I row,
                                          const uint32_t* draws) const {
    const F p = exp2(sub(fma(s, unit, less), rest));
    if constexpr (Dropout) {
      const F k = kept(factor, mixed(exclusive_or(row, load_int(draws))), threshold);
      s = mul(p, k);
      dp = mul(p, sub(mul(dp, k), delta));
    } else {
      s = p;
      dp = mul(p, sub(dp, delta));
    }
  }

  template <bool Dropout>
  __attribute__((always_inline)) void row(const Asked& asked, uint32_t draw, const uint32_t* draws, int64_t n,
                         float* s, float* dp) const {
    const F less = all(-asked.shift), rest = all(asked.rest), delta = all(asked.delta);
    const I seed = all_int(draw);
    for (int64_t j = 0; j < n; j += W) {
      F x = load(s + j), y = load(dp + j);
      one<Dropout>(x, y, less, rest, delta, seed, draws + j);
      store(s + j, x);
      store(dp + j, y);
    }
  }
};

// What softcap multiplies a gradient by: 1 − tanh² of the scaled products.
static void cap_slopes(const Call& call, int64_t n, const float* s, float* slopes) {
  const F to = all(static_cast<float>(__builtin_fabs(call.scale) / call.softcap)), one = all(1);
  for (int64_t j = 0; j < n; j += W) {
    const F t = tanh(mul(load(s + j), to));
    store(slopes + j, mul(sub(one, t), add(one, t)));
  }
}

// Past the cache, where what is written will not be read soon: `to` is a vector's multiple.
REGARD_INLINE void stream(float* to, F x) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, x);
#elif defined(__AVX2__)
  _mm256_stream_ps(to, x);
#else
  store(to, x);
#endif
}
// All that was streamed is there for other threads.
REGARD_INLINE void streamed() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

// Gradients of the biases from those of a row's scores.
static void add_to_bias(const Call& call, const Gradients& want, const Asked& asked, int64_t first,
                        int64_t n, const float* ds) {
  for (int i = 0; i < call.biases; ++i) {
    if (!want.bias[i].data) continue;
    const int64_t step = want.bias[i].column;
    float* to = reinterpret_cast<float*>(asked.bias[i] + first * step);
    if (step == 0) {
      F sum = zero();
      for (int64_t j = 0; j < pieces_of(n, NR) * NR; j += W) sum = add(sum, load(ds + j));
      *to += total(sum);  // what lies beyond n is 0
      continue;
    }
    int64_t j = 0;
    if (want.put[i] && reinterpret_cast<uintptr_t>(to) % (W * 4) == 0)
      for (; j + W <= n; j += W) stream(to + j, load(ds + j));
    else if (want.put[i])
      for (; j + W <= n; j += W) store(to + j, load(ds + j));
    else
      for (; j + W <= n; j += W) store(to + j, add(load(to + j), load(ds + j)));
    for (; j < n; ++j) to[j] = (want.put[i] ? 0 : to[j]) + ds[j];
  }
}

#if defined(__AVX512BF16__)
// Of 16 numbers of one row and those of the next, pairs.
REGARD_INLINE F paired(F a, F b) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, (I)_mm512_cvtne2ps_pbh(b, a)));
}
REGARD_INLINE F side_by_side(F a, F b) {
  return _mm512_castsi512_ps((I)_mm512_cvtne2ps_pbh(b, a));
}

// Two rows of weights and of dS become units, in the place of the first of them or of both; and dS
// rows of units.
template <class Dot, class Fn>
REGARD_INLINE void pair_rows(int64_t n, float* s, float* dp, float* rows, Fn weigh) {
  for (int64_t j = 0; j < n; j += NR) {
    F p[4], d[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int64_t at = i / 2 * Dot::mate * LDA + j + i % 2 * W;
      p[i] = load(s + at);
      d[i] = load(dp + at);
      weigh(p[i], d[i], i / 2, j + i % 2 * W);
    }
    if constexpr (Dot::terms == 2) {
      store(s + j, paired(p[0], p[2]));
      store(s + j + W, paired(p[1], p[3]));
      store(dp + j, paired(d[0], d[2]));
      store(dp + j + W, paired(d[1], d[3]));
      store(rows + j / 2, side_by_side(d[0], d[1]));
      store(rows + LDA + j / 2, side_by_side(d[2], d[3]));
    } else {
#if defined(__AMX_BF16__)
      constexpr int64_t FAR = Halves::mate * LDA;
      store_split(p[0], p[2], s + j, s + FAR + j);
      store_split(p[1], p[3], s + j + W, s + FAR + j + W);
      store_split(d[0], d[2], dp + j, dp + FAR + j);
      store_split(d[1], d[3], dp + j + W, dp + FAR + j + W);
      store_split(d[0], d[1], rows + j, rows + j + W);
      store_split(d[2], d[3], rows + FAR + j, rows + FAR + j + W);
#endif
    }
  }
}
#endif

}  // namespace regard::REGARD_LEVEL
