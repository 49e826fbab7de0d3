// The products of the backward pass: C, or C and what is there, is A times B.
//
// All matrices whose rows are read as A lie LDA numbers apart, so that the compiler knows where they are.
#pragma once
#include "amx.h"
#include "rows.h"

namespace regard::REGARD_LEVEL {

constexpr int ROWS = 64;            // of a block of queries
constexpr int TILE = WIDEST;        // keys whose weights are held at once
constexpr int LDA = WIDEST + 16;

// M rows of A by N vectors of B.
template <class Dot, int M, int N>
static void grow(const float* a, const float* b, int64_t b_step, int64_t depth, float* c,
                 int64_t c_step, bool fresh) {
  F sum[M][N];
#pragma GCC unroll 16
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) sum[r][n] = fresh ? zero() : load(c + r * c_step + n * W);
  for (int64_t d = 0; d < depth; ++d, ++a, b += b_step) {
    F right[N];
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) right[n] = load(b + n * W);
#pragma GCC unroll 16
    for (int r = 0; r < M; ++r) {
      F left = all(a[r * LDA]);
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) sum[r][n] = Dot::step(sum[r][n], left, right[n]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) store(c + r * c_step + n * W, sum[r][n]);
}

using Grow = void (*)(const float*, const float*, int64_t, int64_t, float*, int64_t, bool);

template <class Dot, int N>
struct GrowTable {
  Grow rows[MR + 1];
  constexpr GrowTable() : rows{} { fill<MR>(); }

 private:
  template <int R>
  constexpr void fill() {
    if constexpr (R > 0) {
      rows[R] = &grow<Dot, R, N>;
      fill<R - 1>();
    }
  }
};

template <class Dot, int N>
static constexpr GrowTable<Dot, N> grow_table{};

// Registers: sums of up to MR × NR numbers.
template <class D>
struct Growing {
  using Dot = D;
  static constexpr int M = MR;           // rows of C at once, …
  static constexpr int LOW = 1;          // … which begin at a multiple of this
  static constexpr int STEP = D::terms;  // rows of a block are filled up to a multiple of this …
  static constexpr int DEEP = 1;         // … and units of a key to one of this
  static constexpr int TALL = 1;         // … and the rows of a panel of sums to one of this

  REGARD_INLINE void begin() {}
  REGARD_INLINE void end() {}
  // rows × NR numbers (or half as many) of C.
  static void multiply(int64_t rows, bool half, const float* a, const float* b, int64_t b_step,
                       int64_t depth, float* c, int64_t c_step, bool fresh) {
    const Grow* table = half ? grow_table<Dot, 1>.rows : grow_table<Dot, NV>.rows;
    const int64_t groups = pieces_of(rows, MR);
    for (int64_t i = 0; i < groups; ++i) {
      const int64_t r = rows * i / groups, n = rows * (i + 1) / groups - r;
      table[n](a + r * LDA, b, b_step, depth, c + r * c_step, c_step, fresh);
    }
  }
  static void score(int64_t rows, const float* q, const float* k, int64_t depth, float* s) {
    multiply(rows, false, q, k, NR, depth, s, LDA, true);
  }
};

#if defined(__AMX_BF16__)
template <class D>
struct GrowingTiles {
  using Dot = D;
  static constexpr int M = 32;
  static constexpr int LOW = 16;
  static constexpr int STEP = 32;
  static constexpr int DEEP = 32 / D::terms;
  static constexpr int TALL = 16;

  static void begin() { configure_tiles(); }
  static void end() { _tile_release(); }
  template <int FIRST>
  static void in_turns(int64_t rows, bool half, const float* a, const float* b, int64_t b_step,
                       int64_t depth, float* c, int64_t c_step, bool fresh) {
    for (int64_t r = 0; r < rows; r += 32) {
      const bool low = rows - r <= 16, two = !half;
      if (fresh) zero_tiles(low);
      else load_tiles(low, two, c + r * c_step, c_step);
      Turns<Dot, FIRST> turns;
      for (int64_t d = 0; d < depth; d += DEEP)
        while (!turns.multiply(low, two, a + r * LDA + d, LDA, b + d * b_step, b_step)) {}
      store_tiles(low, two, c + r * c_step, c_step);
    }
  }
  static void multiply(int64_t rows, bool half, const float* a, const float* b, int64_t b_step,
                       int64_t depth, float* c, int64_t c_step, bool fresh) {
    in_turns<1>(rows, half, a, b, b_step, depth, c, c_step, fresh);
  }
  static void score(int64_t rows, const float* q, const float* k, int64_t depth, float* s) {
    in_turns<0>(rows, false, q, k, NR, depth, s, LDA, true);
  }
};
#endif

}  // namespace regard::REGARD_LEVEL
