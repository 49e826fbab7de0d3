// A thread's memory for the questions to a strip of weights.
#pragma once
#include "best.h"
#include "strip.h"

namespace regard::REGARD_LEVEL {

constexpr int64_t STRIP_BYTES = 1 << 20;  // of weights, that they stay in the second-level cache
constexpr int64_t FEWEST_ROWS = 28;       // that share a reading of the keys all the same
constexpr int64_t MANY_PIECES = 64;       // pieces of work to cut a call into

template <class Kind>
REGARD_INLINE int64_t strip_height(const Call& call) {
  const int64_t fit = STRIP_BYTES / 4 / at_least(call.S, 1) / Kind::M;
  return Kind::M * at_most(at_least(fit, pieces_of(FEWEST_ROWS, Kind::M)), MOST_ROWS / Kind::M);
}

// A thread's memory for a strip, laid out anew for each piece of work.
struct Desk {
  float *q, *s;          // packed queries, and the scores of a tile
  Row* rows;
  float* e;              // (rows, width): the weights, in units of each tile
  // (tiles, rows): what a tile's scores are shifted by, Σ e, Σ e · log₂ e, and weight ÷ e.
  float *shift, *sum, *spread, *factor;
  float* marked;         // (shares, tiles, rows): Σ e of the keys that a share is asked for
  int64_t *from, *to;    // (groups, tiles): the keys of each tile, none if they are equal
  float *columns, *tops; // (width): sums, and largest, of some rows
  float* diagonal;       // (rows + width)
  Best<float>* best;     // (questions, rows)
  int64_t width, height, tiles;

  // How many bytes it takes; it lies at `at`, unless that is null.
  template <class Kind>
  size_t lay_out(const Call& call, const Ask& asked, char* at) {
    height = strip_height<Kind>(call);
    tiles = pieces_of(call.S, KEYS) + 1;
    width = pieces_of(call.S, NR) * NR + NR + 16;  // rows of it do not meet in the cache
    size_t used = 0;
    auto take = [&](auto& pointer, int64_t count) {
      if (at) pointer = (decltype(pointer + 0))(at + used);
      used += (count * sizeof(*pointer) + 63) / 64 * 64;
    };
    take(q, height * LDQ);
    take(s, 32 * LDS);
    take(rows, height);
    take(e, height * width);
    take(shift, tiles * height);
    take(sum, tiles * height);
    take(spread, tiles * height);
    take(factor, tiles * height);
    take(marked, asked.share_count * tiles * height);
    take(from, height / Kind::M * tiles);
    take(to, height / Kind::M * tiles);
    take(columns, width);
    take(tops, width);
    take(diagonal, width + height);
    take(best, asked.strongest_count * height);
    for (int i = 0; i < asked.strongest_count; ++i) {
      float* scores;
      int64_t* keys;
      take(scores, asked.strongest[i].k * height);
      take(keys, asked.strongest[i].k * height);
      for (int64_t r = 0; at && r < height; ++r) {
        const int64_t k = asked.strongest[i].k;
        best[i * height + r] = {scores + r * k, keys + r * k, k};
      }
    }
    return used;
  }
};

}  // namespace regard::REGARD_LEVEL
