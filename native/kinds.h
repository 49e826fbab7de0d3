// How a group of rows is multiplied: one struct a kind of arithmetic, all with the same words.
#pragma once
#include "amx.h"

namespace regard::REGARD_LEVEL {

// Registers: sums of M × NR numbers, in floats or in pairs of bfloat16.
template <class D>
struct Registers {
  using Dot = D;
  static constexpr int M = MR;         // rows of a group
  static constexpr int STRIP = 8 * MR; // rows that share a stretch of keys while it is in the cache
  static constexpr int KEYS_AT_ONCE = KEYS;
  static constexpr int DEEP = 1;       // the depth is a multiple of this
  static constexpr bool SHRINKS = true;  // mix() scales what is there

  REGARD_INLINE void begin() {}
  REGARD_INLINE void end() {}
  static void products(int rows, const Cut& cut, const float* q, const float* panels, int64_t n,
                       float* s) {
    const Products multiply = table<Dot, NV>.products[rows];
    for (int64_t j = 0; j < n; j += NR)
      multiply(q, panels + j * cut.depth, cut.depth, s + j);
  }
  static void mix(int rows, const Cut& cut, int64_t E, const float* s, const float* values,
                  int64_t n, const float* shrink, float* out) {
    const int64_t panel = cut.panels * NR / Dot::terms * NR;
    for (int64_t p = 0; p < cut.value_panels; ++p) {
      const bool half = E - p * NR <= W;
      const Mix multiply = half ? table<Dot, 1>.mix[rows] : table<Dot, NV>.mix[rows];
      multiply(s, values + p * panel, n / Dot::terms, shrink, out + p * NR, cut.out_step);
    }
  }
};

#if defined(__AMX_BF16__)
struct Tiles {
  using Dot = Pairs;
  static constexpr int M = 32;
  static constexpr int STRIP = 128;
  static constexpr int KEYS_AT_ONCE = 256;
  static constexpr int DEEP = 16;
  static constexpr bool SHRINKS = false;

  static void begin() { configure_tiles(); }
  static void end() { _tile_release(); }
  static void products(int rows, const Cut& cut, const float* q, const float* panels, int64_t n,
                       float* s) {
    for (int64_t j = 0; j < n; j += NR) {
      if (rows > 16)
        tile_products<false>(q, panels + j * cut.depth, cut.depth, s + j);
      else
        tile_products<true>(q, panels + j * cut.depth, cut.depth, s + j);
    }
  }
  static void mix(int rows, const Cut& cut, int64_t E, const float* s, const float* values,
                  int64_t n, const float*, float* out) {
    const int64_t panel = cut.panels * NR / 2 * NR, step = cut.out_step;
    for (int64_t p = 0; p < cut.value_panels; ++p, out += NR, values += panel) {
      const bool half = E - p * NR <= W;
      if (rows > 16)
        half ? tile_mix<false, 1>(s, values, n / 2, out, step)
             : tile_mix<false, 2>(s, values, n / 2, out, step);
      else
        half ? tile_mix<true, 1>(s, values, n / 2, out, step)
             : tile_mix<true, 2>(s, values, n / 2, out, step);
    }
  }
};
#endif

}  // namespace regard::REGARD_LEVEL
