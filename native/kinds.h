// How a group of rows is multiplied: one struct a kind of arithmetic, all with the same words.
#pragma once
#include "amx.h"

namespace regard::REGARD_LEVEL {

// Which strip of which head, and which part of the keys; where the arrays of its entry begin.
struct Place {
  int64_t head, b, g, from, to, first_key, last_key;
  Entry entry;
  Place(const Job& job, int64_t strip, int64_t part)
      : head(strip / (job.cut.segments * job.cut.strips)),
        b(head / job.call.G),
        g(head % job.call.G),
        entry(job.call, b) {
    const Cut& cut = job.cut;
    const int64_t rest = strip % (cut.segments * cut.strips);
    // The last rows first: under a causal mask they have the most to do.
    const int64_t at = cut.strips - 1 - rest % cut.strips;
    const int64_t begin = rest / cut.strips * cut.segment_rows;
    from = begin + at * cut.strip_rows;
    to = at_most(from + cut.strip_rows, begin + cut.segment_rows);
    first_key = part * cut.part_keys;
    last_key = at_most(first_key + cut.part_keys, job.call.S);
  }
  REGARD_INLINE const char* key(const Call& call, const Place& at, int64_t j) {
    return at.entry.k + at.g * call.k.head + j * call.k.row;
  }
  REGARD_INLINE const char* value(const Call& call, const Place& at, int64_t j) {
    return at.entry.v + at.g * call.v.head + j * call.v.row;
  }
};

REGARD_INLINE const float* packed_keys(const Job& job, const Place& at, int64_t first) {
  return job.keys + at.head * job.cut.key_floats + first * job.cut.depth;
}
template <class Dot>
REGARD_INLINE const float* packed_values(const Job& job, const Place& at, int64_t first) {
  return job.values + at.head * job.cut.value_floats + first / Dot::terms * NR;
}

// Registers: sums of M × NR numbers, in floats or in pairs of bfloat16.
template <class D>
struct Registers {
  using Dot = D;
  static constexpr int M = MR;         // rows of a group
  static constexpr int STRIP = 8 * MR; // rows that share a stretch of keys while it is in the cache
  static constexpr int KEYS_AT_ONCE = KEYS;
  static constexpr int BLOCK = KEYS_AT_ONCE;  // … and as many after another by the same rows
  static constexpr int LD = LDS;       // numbers from row to row of the scores
  static constexpr int DEEP = 1;       // the depth is a multiple of this
  static constexpr bool SHRINKS = true;  // mix() scales what is there
  static constexpr bool PACKS = true;    // it reads keys and values as pack.h lays them out

  REGARD_INLINE void begin() {}
  REGARD_INLINE void end() {}
  static void products(const Job& job, const Place& at, int rows, const float* q, int64_t first,
                       int64_t n, float* s) {
    const Cut& cut = job.cut;
    const float* panels = packed_keys(job, at, first);
    const Products multiply = table<Dot, NV>.products[rows];
    for (int64_t j = 0; j < n; j += NR)
      multiply(q, panels + j * cut.depth, cut.depth, s + j);
  }
  static void mix(const Job& job, const Place& at, int rows, const float* s, int64_t first,
                  int64_t n, const float* shrink, float* out) {
    const Cut& cut = job.cut;
    const float* values = packed_values<Dot>(job, at, first);
    const int64_t panel = cut.panels * NR / Dot::terms * NR;
    for (int64_t p = 0; p < cut.value_panels; ++p) {
      const bool half = job.call.E - p * NR <= W;
      const Mix multiply = half ? table<Dot, 1>.mix[rows] : table<Dot, NV>.mix[rows];
      multiply(s, values + p * panel, n / Dot::terms, shrink, out + p * NR, cut.out_step);
    }
  }
};

#if defined(__AMX_BF16__)
// The tile unit, in a pipeline: pipeline.h.
template <class D>
struct Tiles {
  using Dot = D;
  static constexpr int M = 32;
  static constexpr int STRIP = 128;
  static constexpr int KEYS_AT_ONCE = 128 * D::terms;
  static constexpr int BLOCK = 1024;  // keys that one group of rows after another goes through
  static constexpr int DEEP = 32 / D::terms;
  static constexpr bool SHRINKS = false;
  static constexpr bool PACKS = true;

  static constexpr int LD = LDT;

  static void begin() { configure_tiles(); }
  static void end() { _tile_release(); }
};
#endif

}  // namespace regard::REGARD_LEVEL
