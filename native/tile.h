// A tile: some rows of one head by some keys, from scores to what they add to the output.
//
// The softmax is online: of what has been seen of a row its maximum, the sum of its weights and its
// output are kept, and scaled down when a greater score comes.
//
// Source: Milakov and Gimelshein 2018; Dao et al. 2022 (FlashAttention), section 3.1.
#pragma once
#include "mend.h"

namespace regard::REGARD_LEVEL {

constexpr int MOST_ROWS = 128;  // of a strip, whatever the kind

// The scores, then the weights, of a group of rows by some keys, of which the first begins a panel.
struct Tile {
  alignas(64) float s[32 * LDS];
  alignas(64) float shrink[32];  // by how much what was added up of a row is too large now
  int r, count;                  // its rows
  int64_t first, last, full;     // its keys, and how many these are in whole panels
  bool whole, shrinks;           // every row sees every key; a shrink is not 1
};

struct Scratch {
  alignas(64) float q[MOST_ROWS * LDQ];
  alignas(64) float out[MOST_ROWS * WIDEST];
  alignas(64) float sums[MOST_ROWS * W];  // of weights, W of them a row
  alignas(64) float most[MOST_ROWS];
  Row rows[MOST_ROWS];
  Tile tiles[3];
};

// Σ w v of the pairs that are allowed: where a hidden value is NaN, 0 times it must not count.
template <class Dot>
static void careful_mix(const Job& job, const Place& at, const Row& row, const float* s,
                        int64_t first, int64_t n, float shrink, float* out) {
  const Call& call = job.call;
  const F down = all(shrink);
  for (int64_t e = 0; e < call.E; e += W) store(out + e, mul(load(out + e), down));
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
    // The vectors' own steps: a compiler may round w · v in between, and bits would be others.
    for (int64_t e = 0; e < call.E; e += W)
      store(out + e, fma(all(w), row_floats(v, call.dtype, e, call.E), load(out + e)));
  }
}

// Scores to weights.  `between` is called twice for each row, with the parts of four of the work on a
// row that come then, and may do other work there.
template <class Kind, class Between>
static void soften(const Job& job, [[maybe_unused]] const Place& at, Scratch& x, Tile& tile, Between between) {
  using Dot = typename Kind::Dot;
  const Call& call = job.call;
  const int r = tile.r, count = tile.count;
  const int64_t first = tile.first, n = tile.last - first, full = tile.full;
  const bool shaped = call.softcap != 0 || call.biases || call.scale == 0;
  const float unit = shaped ? 1.0f : static_cast<float>(__builtin_fabs(call.scale)) * LOG2E;
  // Of each row: its greatest score before, here, and in all; and what its scores are shifted by.
  alignas(64) float before[32], here[32], found[32], shift[32];
#if defined(__AMX_BF16__)
  mend_scores<Dot>(job, at, x.rows + r, count, first, tile.last, tile.s, Kind::LD);
#endif
  tile.whole = !call.mask.data;
  for (int i = 0; tile.whole && i < count; ++i)
    tile.whole = sees_all(call, x.rows[r + i], first, tile.last);
  for (int i = 0; i < count; ++i) {
    between(1);
    const Row& row = x.rows[r + i];
    float* s = tile.s + i * Kind::LD;
    if (shaped) shape_row(call, row, first, n, s);
    if (row.mask) hide_by_bytes(call, row, first, n, s);
    if (!tile.whole && row.first) hide_by_ranges(call, row, first, n, s);
    hide(s, n, full);
    here[i] = row_largest(s, full);
    before[i] = x.most[r + i];
  }
  for (int i = count; i < 32; ++i) before[i] = here[i] = 0;
  for (int i = 0; i < 32; i += W) store(found + i, larger(load(here + i), load(before + i)));
  for (int i = 0; i < count; ++i) x.most[r + i] = found[i];
  // Without a finite maximum (nothing seen yet; or ∞ or NaN, and then the row will be NaN anyway)
  // nothing is shifted.
  for (int i = 0; i < 32; ++i) shift[i] = __builtin_fabsf(found[i]) < INFINITE ? found[i] * unit : 0;
  for (int i = 0; i < 32; i += W)
    store(tile.shrink + i, exp2(fma(load(before + i), all(unit), sub(zero(), load(shift + i)))));
  tile.shrinks = false;
  for (int i = 0; i < count; ++i) tile.shrinks |= tile.shrink[i] != 1;
  const uint32_t threshold = static_cast<uint32_t>(call.threshold);
  for (int i = 0; i < count; ++i) {
    between(3);
    float *s = tile.s + i * Kind::LD, *sum = x.sums + (r + i) * W;
    const F more = threshold ? weigh<Dot, true>(s, full, unit, shift[i], x.rows[r + i].draw,
                                                job.draws + first, threshold)
                             : weigh<Dot, false>(s, full, unit, shift[i], 0, nullptr, 0);
    store(sum, fma(load(sum), all(tile.shrink[i]), more));
  }
}

// Whether a value that some row of the tile must not see is NaN or infinite.  What stands in its last
// panel after its keys is multiplied too, by 0.
template <class Kind>
static bool is_unclean(const Job& job, const Place& at, const Tile& tile) {
  bool unclean = false;
  const int64_t end = at_most(tile.first + tile.full, job.call.S);
  if (tile.whole && tile.last == end) return false;
  if constexpr (Kind::PACKS) {
    const uint8_t* panels = job.unclean + at.head * job.cut.panels;
    for (int64_t p = tile.first / NR; p < pieces_of(end, NR); ++p) unclean |= panels[p] != 0;
  } else {
    for (int64_t j = tile.first; j < end && !unclean; ++j)
      unclean = !finite(Place::value(job.call, at, j), job.call.dtype, job.call.E);
  }
  return unclean;
}

REGARD_INLINE void shrink_rows(const Tile& tile, float* out, int64_t step) {
  for (int i = 0; tile.shrinks && i < tile.count; ++i)
    for (int64_t e = 0; e < step; e += W)
      store(out + i * step + e, mul(load(out + i * step + e), all(tile.shrink[i])));
}

// What goes before a tile's weights meet the values; true if nothing is left to do after it.
template <class Kind>
static bool prepare(const Job& job, const Place& at, Scratch& x, const Tile& tile) {
  const int64_t step = job.cut.out_step;
  float* out = x.out + tile.r * step;
#if defined(__AMX_BF16__)
  if constexpr (__is_same(typename Kind::Dot, Halves)) {
    shrink_rows(tile, out, step);
    if (any_unclean(job, at, tile.first, tile.last, UNCLEAN_VALUES))
      for (int i = 0; i < tile.count; ++i)
        mend_mix(job, at, x.rows[tile.r + i], tile.s + i * Kind::LD, tile.first, tile.last,
                 out + i * step);
    return false;
  }
#endif
  if (is_unclean<Kind>(job, at, tile)) {
    for (int i = 0; i < tile.count; ++i)
      careful_mix<typename Kind::Dot>(job, at, x.rows[tile.r + i], tile.s + i * Kind::LD,
                                      tile.first, tile.last - tile.first, tile.shrink[i],
                                      out + i * step);
    return true;
  }
  if constexpr (!Kind::SHRINKS) shrink_rows(tile, out, step);
  return false;
}

// One tile after the other: both products wait for what is between them.
template <class Kind>
struct InTurn {
  const Job& job;
  const Place& at;
  Scratch& x;

  void add(int r, int count, int64_t first, int64_t last) {
    Tile& tile = x.tiles[0];
    tile.r = r;
    tile.count = count;
    tile.first = first;
    tile.last = last;
    tile.full = pieces_of(last - first, NR) * NR;
    ask_for_biases(job.call, x.rows + r, count, first, last);
    Kind::products(job, at, count, x.q + r * LDQ, first, tile.full, tile.s);
    soften<Kind>(job, at, x, tile, [](int) {});
    if (prepare<Kind>(job, at, x, tile)) return;
    Kind::mix(job, at, count, tile.s, first, tile.full, tile.shrink,
              x.out + r * job.cut.out_step);
  }
  void finish() {}
};

}  // namespace regard::REGARD_LEVEL
