// A piece of work of the backward pass, and a thread's memory for it.
#pragma once
#include "blame.h"

namespace regard::REGARD_LEVEL {

// From the first that matters to after the last; none if these meet.
struct Span {
  int from, to;
  __attribute__((always_inline)) void widen(Span other) {
    if (other.from >= other.to) return;
    if (from >= to) *this = other;
    from = other.from < from ? other.from : from;
    to = other.to > to ? other.to : to;
  }
};

struct BackScratch {
  alignas(64) float q[ROWS * LDA], along[ROWS * LDA];
  alignas(64) float q_turned[WIDEST * LDA], along_turned[WIDEST * LDA];
  // Scores, then weights; dP, then dS; dS as rows of units.
  alignas(64) float s[ROWS * LDA], dp[ROWS * LDA], ds[ROWS * LDA];
  alignas(64) float dq[ROWS * LDA];
  alignas(64) float slopes[TILE];
  Row rows[ROWS];
  Asked asked[ROWS];
  Span keys_of[ROWS];         // of a tile: the keys that a row sees, in whole panels
  Span rows_of[TILE / NR];    // … and the rows that see a panel
};

// Of a piece: its key head, its blocks, and the keys that any of their rows sees.
struct Piece {
  int64_t b, g, part, first_block, last_block, low, high;
  Entry entry;
  const char *along, *along_lse;

  Piece(const BackJob& job, int64_t number)
      : b(number % job.call.B),
        g(number / job.call.B % job.call.G),
        // The last rows first: under a causal mask they have the most to do.
        part(job.cut.parts - 1 - number / job.heads()),
        first_block(part * job.cut.part_blocks),
        last_block(at_most(first_block + job.cut.part_blocks, job.cut.segments * job.cut.blocks)),
        low(job.call.S),
        high(0),
        entry(job.call, b) {
    const Call& call = job.call;
    along = job.want.along.data + call.at(job.want.along.lead, b);
    along_lse = job.want.along_lse.data
                    ? job.want.along_lse.data + call.at(job.want.along_lse.lead, b)
                    : nullptr;
    if (!entry.first) {
      low = 0;
      high = call.S;
      return;
    }
    for (int64_t n = from(job.cut, first_block); n < to(job.cut, last_block - 1); ++n) {
      const int64_t *first = entry.first + n % call.T * call.ranges,
                    *last = entry.last + n % call.T * call.ranges;
      for (int64_t k = 0; k < call.ranges; ++k)
        if (first[k] < last[k]) {
          low = at_most(low, first[k]);
          high = at_least(high, last[k]);
        }
    }
    low = at_most(low / NR * NR, high);
  }
  // The stacked rows of a block.
  static int64_t from(const BackCut& cut, int64_t block) {
    return block / cut.blocks * cut.segment_rows + block % cut.blocks * cut.block_rows;
  }
  static int64_t to(const BackCut& cut, int64_t block) {
    return at_most(from(cut, block) + cut.block_rows, (block / cut.blocks + 1) * cut.segment_rows);
  }
};

}  // namespace regard::REGARD_LEVEL
