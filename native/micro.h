// The products of small blocks, all of whose sums stay in registers.
//
// A is M rows of 32-bit units (a float, or two bfloat16 that lie together), B a panel: for each unit
// of the depth NR numbers side by side.  A unit of A times a row of the panel adds to M × NR sums.
#pragma once
#include "vec.h"

namespace regard::REGARD_LEVEL {

#if defined(__AVX512F__)
constexpr int MR = 14;  // 28 sums, two vectors of the panel and one of A: 31 of 32 registers
#elif defined(__AVX2__)
constexpr int MR = 6;  // 12 sums of 16 registers
#else
constexpr int MR = 4;
#endif
constexpr int NV = 2;
constexpr int NR = NV * W;

constexpr int WIDEST = 256;       // D and E
constexpr int KEYS = 512;         // keys whose scores are held at once
constexpr int LDQ = WIDEST + 16;  // from row to row of the queries …
constexpr int LDS = KEYS + 16;    // … and of the scores, so that rows do not meet in the cache

struct Floats {
  static constexpr int terms = 1;  // numbers a unit
  static constexpr int mate = 0;   // of two rows that are made units of together, how far apart
  REGARD_INLINE F step(F sum, F a, F b) { return fma(a, b, sum); }
  // Weights of NR keys into the place of their scores.
  REGARD_INLINE void put(float* s, int64_t j, F a, F b) {
    store(s + j, a);
    store(s + j + W, b);
  }
};

#if defined(__AVX512BF16__)
struct Pairs {
  static constexpr int terms = 2, mate = 1;
  REGARD_INLINE F step(F sum, F a, F b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a),
                            (__m512bh)_mm512_castps_si512(b));
  }
  REGARD_INLINE void put(float* s, int64_t j, F a, F b) {
    store(s + j / 2, _mm512_castsi512_ps((I)_mm512_cvtne2ps_pbh(b, a)));
  }
};
#endif

// scores[r][…] = A[r] · B, for N vectors of the panel.
template <class Dot, int M, int N>
static void products(const float* a, const float* b, int64_t depth, float* scores) {
  F sum[M][N];
#pragma GCC unroll 16
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) sum[r][n] = zero();
  for (int64_t d = 0; d < depth; ++d, ++a, b += NR) {
    F right[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) right[n] = load(b + n * W);
#pragma GCC unroll 16
    for (int r = 0; r < M; ++r) {
      F left = all(a[r * LDQ]);
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) sum[r][n] = Dot::step(sum[r][n], left, right[n]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) store(scores + r * LDS + n * W, sum[r][n]);
}

// out[r][…] = out[r][…] · shrink[r] + A[r] · B.
template <class Dot, int M, int N>
static void mix(const float* a, const float* b, int64_t depth, const float* shrink, float* out,
                int64_t out_step) {
  F sum[M][N];
#pragma GCC unroll 16
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n)
      sum[r][n] = mul(load(out + r * out_step + n * W), all(shrink[r]));
  for (int64_t d = 0; d < depth; ++d, ++a, b += NR) {
    F right[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) right[n] = load(b + n * W);
#pragma GCC unroll 16
    for (int r = 0; r < M; ++r) {
      F left = all(a[r * LDS]);
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) sum[r][n] = Dot::step(sum[r][n], left, right[n]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) store(out + r * out_step + n * W, sum[r][n]);
}

using Products = void (*)(const float*, const float*, int64_t, float*);
using Mix = void (*)(const float*, const float*, int64_t, const float*, float*, int64_t);

// The functions for 1 … MR rows.
template <class Dot, int N, int M = MR>
struct Table {
  Products products[MR + 1];
  Mix mix[MR + 1];
  constexpr Table() : products{}, mix{} { fill<MR>(); }

 private:
  template <int R>
  constexpr void fill() {
    if constexpr (R > 0) {
      products[R] = &REGARD_LEVEL::products<Dot, R, N>;
      mix[R] = &REGARD_LEVEL::mix<Dot, R, N>;
      fill<R - 1>();
    }
  }
};

template <class Dot, int N>
static constexpr Table<Dot, N> table{};

}  // namespace regard::REGARD_LEVEL
