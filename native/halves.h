// float16 for the tile unit, which multiplies bfloat16: a number of 11 bits is the sum of a high part
// of 8 and a low part of 3, both exact in bfloat16, whose range is greater.
//
//     q · k = qₕ kₕ + qₗ kₕ + qₗ kₗ + qₕ kₗ,   w v ≈ wₗ vₕ + wₕ vₕ + wₕ vₗ
//
// A weight is a float of 24 bits: its parts hold 16 of them, and the second sum is wrong by no more
// than 2⁻¹⁴ of a term.  32 numbers are 16 units of high parts, then 16 of low ones; a unit has those
// of the numbers u and u + 16.
//
// Parts of what is not finite mean nothing: 0 stands in its place, and what it would have added is
// mended by itself.  So no bit of what is finite depends on whether something beside it is.
#pragma once
#include "rows.h"

#if defined(__AMX_BF16__)
namespace regard::REGARD_LEVEL {

// The high and the low parts of 32 numbers.
REGARD_INLINE void split(F a, F b, F& high, F& low) {
  const I top = all_int(0xFFFF0000u), half = all_int(0x8000u);
  const I x = _mm512_and_si512(_mm512_castps_si512(a), top);
  const I y = _mm512_and_si512(_mm512_castps_si512(b), top);
  I u = _mm512_castps_si512(sub(a, _mm512_castsi512_ps(x)));
  I v = _mm512_castps_si512(sub(b, _mm512_castsi512_ps(y)));
  u = _mm512_add_epi32(u, half);
  v = _mm512_and_si512(_mm512_add_epi32(v, half), top);
  high = _mm512_castsi512_ps(_mm512_or_si512(_mm512_srli_epi32(x, 16), y));
  low = _mm512_castsi512_ps(_mm512_or_si512(_mm512_srli_epi32(u, 16), v));
}

REGARD_INLINE void store_split(F a, F b, float* high, float* low) {
  F x, y;
  split(a, b, x, y);
  store(high, x);
  store(low, y);
}

struct Halves {
  static constexpr int terms = 1, mate = 16;
  REGARD_INLINE void put(float* s, int64_t j, F a, F b) {
    store_split(a, b, s + j, s + j + W);
  }
};

// Numbers of a row from `first` on, 0 beyond its end and instead of what is not finite.
REGARD_INLINE F finite_floats(const char* row, Dtype dtype, int64_t first, int64_t width,
                              bool& unclean) {
  const F x = row_floats(row, dtype, first, width);
  const __mmask16 there = _mm512_cmp_ps_mask(_mm512_abs_ps(x), all(INFINITE), _CMP_LT_OQ);
  unclean |= there != 0xFFFF;
  return _mm512_maskz_mov_ps(there, x);
}

template <>
bool pack_turned<Halves>(const char* rows, int64_t step, Dtype dtype, int64_t there, int64_t width,
                         int64_t depth, float* panel) {
  bool unclean = false;
  for (int n = 0; n < NV; ++n)
    for (int64_t d = 0; d < depth; d += NR) {
      F high[W], low[W];
      for (int i = 0; i < W; ++i) {
        high[i] = low[i] = zero();
        const char* row = rows + (n * W + i) * step;
        if (n * W + i < there)
          split(finite_floats(row, dtype, d, width, unclean),
                finite_floats(row, dtype, d + W, width, unclean), high[i], low[i]);
      }
      turn(high);
      turn(low);
      for (int i = 0; i < W; ++i) {
        store(panel + (d + i) * NR + n * W, high[i]);
        store(panel + (d + W + i) * NR + n * W, low[i]);
      }
    }
  return unclean;
}

template <>
bool pack_straight<Halves>(const char* rows, int64_t row_step, Dtype dtype, int64_t there,
                           int64_t width, float* packed, int64_t step) {
  bool unclean = false;
  for (int64_t p = 0; p * NR < width; ++p)
    for (int64_t u = 0; u < W; ++u)
      for (int n = 0; n < NV; ++n) {
        F x[2];
        for (int64_t i = 0; i < 2; ++i)
          x[i] = u + i * W < there ? finite_floats(rows + (u + i * W) * row_step, dtype,
                                                   p * NR + n * W, width, unclean)
                                   : zero();
        float* to = packed + p * step + u * NR + n * W;
        store_split(x[0], x[1], to, to + W * NR);
      }
  return unclean;
}

// 32 numbers of a row as they are read as A.
REGARD_INLINE bool lay_halves(const char* row, Dtype dtype, int64_t first, int64_t width, F sign,
                              float* to) {
  bool unclean = false;
  store_split(mul(sign, finite_floats(row, dtype, first, width, unclean)),
              mul(sign, finite_floats(row, dtype, first + W, width, unclean)), to, to + W);
  return unclean;
}

// 32 rows of units to units of these rows: [number][unit].
REGARD_INLINE void turn_halves(const float* rows, int64_t step, float* to) {
  for (int part = 0; part < NR; part += W) {
    F x[W], y[W];  // of the numbers 0 … 15, and of the others
    for (int i = 0; i < W; ++i) {
      const I a = _mm512_castps_si512(load(rows + i * step + part));
      const I b = _mm512_castps_si512(load(rows + (i + W) * step + part));
      const I top = all_int(0xFFFF0000u);
      x[i] = _mm512_castsi512_ps(
          _mm512_or_si512(_mm512_andnot_si512(top, a), _mm512_slli_epi32(b, 16)));
      y[i] = _mm512_castsi512_ps(
          _mm512_or_si512(_mm512_srli_epi32(a, 16), _mm512_and_si512(b, top)));
    }
    turn(x);
    turn(y);
    for (int i = 0; i < W; ++i) {
      store(to + i * step + part, x[i]);
      store(to + (i + W) * step + part, y[i]);
    }
  }
}

template <>
[[maybe_unused]] bool pack_query<Halves>(const Call& call, const Cut& cut, const char* row, float* to) {
  bool unclean = false;
  const F sign = all(call.scale < 0 ? -1 : 1);
  for (int64_t d = 0; d < cut.depth; d += NR)
    unclean |= lay_halves(row, call.dtype, d, call.D, sign, to + d);
  return unclean;
}

}  // namespace regard::REGARD_LEVEL
#endif
