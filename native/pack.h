// Keys and values laid out for the micro-kernels, NR keys at a time.
//
// A panel of keys is turned: [unit of the width][NR keys].  Values lie in panels of NR columns:
// [panel of columns][unit of keys][NR columns].  What lies beyond the last key or column is 0.
#pragma once
#include "job.h"
#include "micro.h"

namespace regard::REGARD_LEVEL {

REGARD_INLINE int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
REGARD_INLINE int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }
REGARD_INLINE int64_t pieces_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

REGARD_INLINE F widened(const char* p, Dtype dtype) {
  if (dtype == Dtype::f32) return load(reinterpret_cast<const float*>(p));
  const uint16_t* half = reinterpret_cast<const uint16_t*>(p);
  return dtype == Dtype::bf16 ? from_bf16(half) : from_f16(half);
}

// W floats of a row from number `first` on; 0 beyond its end.
REGARD_INLINE F row_floats(const char* row, Dtype dtype, int64_t first, int64_t width) {
  const int size = dtype == Dtype::f32 ? 4 : 2;
  if (first + W <= width) return widened(row + first * size, dtype);
  char buffer[W * 4] = {};
  if (first < width) std::memcpy(buffer, row + first * size, (width - first) * size);
  return widened(buffer, dtype);
}

// W units of a row from unit `first` on.
template <class Dot>
REGARD_INLINE F row_units(const char* row, Dtype dtype, int64_t first, int64_t width) {
  if constexpr (Dot::terms == 1) {
    return row_floats(row, dtype, first, width);
  } else {
    if ((first + W) * 2 <= width) return load(reinterpret_cast<const float*>(row) + first);
    float buffer[W] = {};
    if (first * 2 < width) std::memcpy(buffer, row + first * 4, (width - first * 2) * 2);
    return load(buffer);
  }
}

// x[i][j] becomes x[j][i].
#if defined(__AVX512F__)
REGARD_INLINE void turn(F (&x)[W]) {
  F a[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
  F b[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm512_shuffle_ps(a[i], a[i + 2], 0xEE);
    b[i + 2] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    F even = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88);
    F odd = _mm512_shuffle_f32x4(b[i], b[i + 4], 0xDD);
    F even2 = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0x88);
    F odd2 = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0xDD);
    x[i] = _mm512_shuffle_f32x4(even, even2, 0x88);
    x[i + 8] = _mm512_shuffle_f32x4(even, even2, 0xDD);
    x[i + 4] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
    x[i + 12] = _mm512_shuffle_f32x4(odd, odd2, 0xDD);
  }
}
#else
REGARD_INLINE void turn(F (&x)[W]) {
  float in[W][W], out[W];
  for (int i = 0; i < W; ++i) store(in[i], x[i]);
  for (int j = 0; j < W; ++j) {
    for (int i = 0; i < W; ++i) out[i] = in[i][j];
    x[j] = load(out);
  }
}
#endif

// A panel: `there` rows (the rest are 0) of `width` numbers, turned: [unit of the width][row].  Says
// whether 0 stands in it for what is not finite: nowhere but in halves.h.
template <class Dot>
static bool pack_turned(const char* rows, int64_t step, Dtype dtype, int64_t there, int64_t width,
                        int64_t depth, float* panel) {
  for (int n = 0; n < NV; ++n)
    for (int64_t d = 0; d < depth; d += W) {
      F x[W];
      for (int i = 0; i < W; ++i) {
        const int64_t j = n * W + i;
        x[i] = j < there ? row_units<Dot>(rows + j * step, dtype, d, width) : zero();
      }
      turn(x);
      const int64_t deep = at_most(W, depth - d);
      for (int64_t i = 0; i < deep; ++i) store(panel + (d + i) * NR + n * W, x[i]);
    }
  return false;
}

template <class Dot>
static bool pack_keys(const Call& call, const Cut& cut, const char* keys, int64_t first,
                      float* panel) {
  return pack_turned<Dot>(keys + first * call.k.row, call.k.row, call.dtype,
                          at_most(NR, call.S - first), call.D, cut.depth, panel);
}

#if defined(__AVX512BF16__)
// Numbers of two rows, side by side: a0 b0 a1 b1 …
REGARD_INLINE void store_pairs(F a, F b, float* to) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const I x = _mm512_castps_si512(a), y = _mm512_castps_si512(b);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  store(to, _mm512_castsi512_ps(_mm512_permutex2var_epi16(x, low, y)));
  store(to + W, _mm512_castsi512_ps(_mm512_permutex2var_epi16(x, high, y)));
}
#endif

// NR rows, of which `there` exist, in panels of NR columns: [panel][unit of rows][NR columns], the
// panels `step` numbers apart.  Also says whether a number is NaN or infinite.
template <class Dot>
static bool pack_straight(const char* rows, int64_t row_step, Dtype dtype, int64_t there,
                          int64_t width, float* packed, int64_t step) {
  F probe = zero();
  for (int64_t p = 0; p * NR < width; ++p) {
    float* to = packed + p * step;
    for (int64_t j = 0; j < NR; j += Dot::terms, to += NR) {
      const char* row = rows + j * row_step;
      if constexpr (Dot::terms == 1) {
        for (int n = 0; n < NV; ++n) {
          F x = j < there ? row_floats(row, dtype, p * NR + n * W, width) : zero();
          probe = fma(x, zero(), probe);
          store(to + n * W, x);
        }
      } else {
#if defined(__AVX512BF16__)
        F a = j < there ? row_units<Dot>(row, dtype, p * W, width) : zero();
        F b = j + 1 < there ? row_units<Dot>(row + row_step, dtype, p * W, width) : zero();
        const I ones = all_int(0x7F807F80u);  // all ones: NaN or infinite
        const I top_a = _mm512_and_si512(_mm512_castps_si512(a), ones);
        const I top_b = _mm512_and_si512(_mm512_castps_si512(b), ones);
        if (_mm512_cmpeq_epi16_mask(top_a, ones) | _mm512_cmpeq_epi16_mask(top_b, ones))
          probe = all(1);
        store_pairs(a, b, to);
#endif
      }
    }
  }
  return !(total(probe) == 0);
}

template <class Dot>
static bool pack_values(const Call& call, const Cut& cut, const char* values, int64_t first,
                        float* packed) {
  return pack_straight<Dot>(values + first * call.v.row, call.v.row, call.dtype,
                            at_most(NR, call.S - first), call.E,
                            packed + first / Dot::terms * NR,
                            cut.panels * NR / Dot::terms * NR);
}

// Whether all numbers of a row are.
REGARD_INLINE bool finite(const char* row, Dtype dtype, int64_t width) {
  F probe = zero();
  for (int64_t i = 0; i < width; i += W) probe = fma(row_floats(row, dtype, i, width), zero(), probe);
  return total(probe) == 0;
}

// Units of the opposite sign.
template <class Dot>
REGARD_INLINE F opposite(F x) {
  if constexpr (Dot::terms == 1) {
    return sub(all(-0.0f), x);
  } else {
#if defined(__AVX512BF16__)
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(x), all_int(0x80008000u)));
#endif
  }
}

// Queries of a group of rows, as A of the products; their sign is the scale's.  Says what
// pack_turned says.
template <class Dot>
static bool pack_query(const Call& call, const Cut& cut, const char* row, float* to) {
  const bool minus = call.scale < 0;
  for (int64_t d = 0; d < cut.depth; d += W) {
    F x = row_units<Dot>(row, call.dtype, d, call.D);
    store(to + d, minus ? opposite<Dot>(x) : x);
  }
  return false;
}

}  // namespace regard::REGARD_LEVEL
