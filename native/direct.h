// Few queries a key head, as in decoding: keys and values are read once, where they lie.
#pragma once
#include "kinds.h"

namespace regard::REGARD_LEVEL {

constexpr int FEW = 16;         // rows up to which this is faster than to lay everything out anew
constexpr int64_t STRETCH = 64; // keys whose values are mixed in one go
constexpr int64_t AHEAD = 64;   // keys after those in hand that memory is asked for

// Σ over the vector of each of W vectors, side by side.
REGARD_INLINE F totals(F (&x)[W]) {
  turn(x);
  F sum = x[0];
  for (int i = 1; i < W; ++i) sum = add(sum, x[i]);
  return sum;
}

// Asks memory for rows that will be read soon, in the order in which they lie.
REGARD_INLINE void ask_for(const char* row, int64_t step, int64_t rows, int64_t bytes) {
  for (int64_t i = 0; i < rows; ++i, row += step)
    for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(row + b, 0, 2);
}

// In floats, whatever the dtype.
struct Direct {
  using Dot = Floats;
  static constexpr int M = FEW;
  static constexpr int STRIP = FEW;
  static constexpr int KEYS_AT_ONCE = 256;
  static constexpr int BLOCK = KEYS_AT_ONCE;
  static constexpr int LD = LDS;
  static constexpr int DEEP = W;
  static constexpr bool SHRINKS = false;
  static constexpr bool PACKS = false;

  static void begin() {}
  static void end() {}

  static void products(const Job& job, const Place& at, int rows, const float* q, int64_t first,
                       int64_t n, float* s) {
    const Call& call = job.call;
    alignas(64) float keys[W][WIDEST];
    for (int64_t j = 0; j < n; j += W) {
      for (int i = 0; i < W; ++i) {
        const bool there = first + j + i < call.S;
        const char* key = Place::key(call, at, first + j + i);
        for (int64_t d = 0; d < job.cut.depth; d += W)
          store(keys[i] + d, there ? row_floats(key, call.dtype, d, call.D) : zero());
      }
      for (int r = 0; r < rows; ++r) {
        F sum[W];
        for (int i = 0; i < W; ++i) sum[i] = mul(load(q + r * LDQ), load(keys[i]));
        for (int64_t d = W; d < job.cut.depth; d += W) {
          const F left = load(q + r * LDQ + d);
#pragma GCC unroll 16
          for (int i = 0; i < W; ++i) sum[i] = fma(left, load(keys[i] + d), sum[i]);
        }
        store(s + r * LDS + j, totals(sum));
      }
    }
  }

  // out += A · V over up to four rows and N vectors of columns.
  template <int R, int N>
  REGARD_INLINE void add_to(const Call& call, const char* values, int64_t e, int64_t n,
                            const float* s, float* out, int64_t step) {
    F sum[R][N];
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < N; ++i) sum[r][i] = load(out + r * step + i * W);
    for (int64_t j = 0; j < n; ++j, values += call.v.row) {
      F right[N];
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) right[i] = row_floats(values, call.dtype, e + i * W, call.E);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const F left = all(s[r * LDS + j]);
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) sum[r][i] = fma(left, right[i], sum[r][i]);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < N; ++i) store(out + r * step + i * W, sum[r][i]);
  }

  static void mix(const Job& job, const Place& at, int rows, const float* s, int64_t first,
                  int64_t n, const float*, float* out) {
    const Call& call = job.call;
    const int64_t step = job.cut.out_step, last = at_most(first + n, call.S);
    for (int64_t j = first; j < last; j += STRETCH) {
      const int64_t some = at_most(STRETCH, last - j);
      const char* values = Place::value(call, at, j);
      for (int64_t e = 0; e < step; e += 2 * W) {
        const bool one = step - e < 2 * W;
        for (int r = 0; r < rows;) {
          const float* w = s + r * LDS + (j - first);
          float* o = out + r * step + e;
          if (rows - r >= 4) {
            one ? add_to<4, 1>(call, values, e, some, w, o, step)
                : add_to<4, 2>(call, values, e, some, w, o, step);
            r += 4;
          } else {
            one ? add_to<1, 1>(call, values, e, some, w, o, step)
                : add_to<1, 2>(call, values, e, some, w, o, step);
            ++r;
          }
        }
      }
    }
  }
};

#if defined(__AMX_BF16__)
// bfloat16 in tiles: keys are the rows of A as they lie, values are paired on the way.
struct DirectTiles {
  using Dot = Pairs;
  static constexpr int M = FEW;
  static constexpr int STRIP = FEW;
  static constexpr int KEYS_AT_ONCE = 256;
  static constexpr int BLOCK = KEYS_AT_ONCE;
  static constexpr int LD = LDS;
  static constexpr int DEEP = 16;
  static constexpr bool SHRINKS = false;
  static constexpr bool PACKS = false;

  static void begin() { configure_tiles(); }
  static void end() { _tile_release(); }

  // 16 keys as they lie, or, where these are fewer or narrower than tiles, copied with zeros.
  REGARD_INLINE const char* sixteen(const Call& call, const Place& at, int64_t j, int64_t depth,
                                    float* copy, int64_t* step) {
    if (j + 16 <= call.S && call.D % 32 == 0) {
      *step = call.k.row;
      return Place::key(call, at, j);
    }
    *step = WIDEST * 2;
    for (int64_t i = 0; i < 16; ++i)
      for (int64_t d = 0; d < depth; d += W)
        store(copy + i * WIDEST / 2 + d,
              j + i < call.S ? row_units<Pairs>(Place::key(call, at, j + i), call.dtype, d, call.D)
                             : zero());
    return reinterpret_cast<const char*>(copy);
  }

  static void products(const Job& job, const Place& at, int rows, const float* q, int64_t first,
                       int64_t n, float* s) {
    const Call& call = job.call;
    const int64_t depth = job.cut.depth;
    alignas(64) float queries[WIDEST / 2 * 16], found[32 * 16], copy[2][16 * WIDEST / 2];
    for (int64_t d = 0; d < depth; d += W) {
      F x[W];
      for (int r = 0; r < W; ++r) x[r] = r < rows ? load(q + r * LDQ + d) : zero();
      turn(x);
      for (int i = 0; i < W; ++i) store(queries + (d + i) * 16, x[i]);
    }
    for (int64_t j = 0; j < n; j += 32) {
      int64_t step_a, step_b;
      const char* a = sixteen(call, at, first + j, depth, copy[0], &step_a);
      const char* b = sixteen(call, at, first + j + 16, depth, copy[1], &step_b);
      _tile_zero(0);
      _tile_zero(1);
      ask_for(Place::key(call, at, first + j + AHEAD), call.k.row, 32, call.D * 2);
      for (int64_t d = 0; d < depth; d += 16) {
        _tile_loadd(6, queries + d * 16, 64);
        _tile_loadd(4, a + d * 4, step_a);
        _tile_loadd(5, b + d * 4, step_b);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 5, 6);
      }
      _tile_stored(0, found, 64);
      _tile_stored(1, found + 256, 64);
      for (int half = 0; half < 2; ++half) {
        F x[W];
        for (int i = 0; i < W; ++i) x[i] = load(found + half * 256 + i * 16);
        turn(x);
        for (int r = 0; r < rows; ++r) store(s + r * LDS + j + half * 16, x[r]);
      }
    }
  }

  // Two keys' values of 32 columns as pairs.
  REGARD_INLINE void pair(const Call& call, const Place& at, int64_t j, int64_t e, float* to) {
    const F a = j < call.S
                    ? row_units<Pairs>(Place::value(call, at, j), call.dtype, e / 2, call.E)
                    : zero();
    const F b = j + 1 < call.S
                    ? row_units<Pairs>(Place::value(call, at, j + 1), call.dtype, e / 2, call.E)
                    : zero();
    store_pairs(a, b, to);
  }

  static void mix(const Job& job, const Place& at, int, const float* s, int64_t first, int64_t n,
                  const float*, float* out) {
    const Call& call = job.call;
    const int64_t step = job.cut.out_step;
    alignas(64) float pairs[2][16 * NR];
    for (int64_t j = 0; j < n; j += STRETCH) {
      const int64_t some = at_most(STRETCH, n - j);
      ask_for(Place::value(call, at, first + j + STRETCH), call.v.row, STRETCH, call.E * 2);
      for (int64_t e = 0; e < step; e += 32) {
        const bool two = step - e > 16;
        _tile_loadd(0, out + e, step * 4);
        if (two) _tile_loadd(1, out + e + 16, step * 4);
        for (int64_t i = 0; i < some; i += 32) {
          float* to = pairs[i / 32 % 2];
          if (first + j + i + 32 <= call.S && e + 32 <= call.E) {
            const char* row = Place::value(call, at, first + j + i) + e * 2;
#pragma GCC unroll 4
            for (int64_t u = 0; u < 16; ++u, row += 2 * call.v.row)
              store_pairs(load(reinterpret_cast<const float*>(row)),
                          load(reinterpret_cast<const float*>(row + call.v.row)), to + u * NR);
          } else {
            for (int64_t u = 0; u < 16; ++u) pair(call, at, first + j + i + 2 * u, e, to + u * NR);
          }
          _tile_loadd(4, s + (j + i) / 2, LDS * 4);
          _tile_loadd(6, to, PANEL);
          _tile_dpbf16ps(0, 4, 6);
          if (!two) continue;
          _tile_loadd(7, to + 16, PANEL);
          _tile_dpbf16ps(1, 4, 7);
        }
        _tile_stored(0, out + e, step * 4);
        if (two) _tile_stored(1, out + e + 16, step * 4);
      }
    }
  }
};
#endif

}  // namespace regard::REGARD_LEVEL
