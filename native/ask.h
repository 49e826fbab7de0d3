// Questions to the weights of a call, in plain numbers, and how their answers are added up.
//
// Arrays of answers have no gaps.  Those that have a row for each query hold floats, or doubles where
// the call is in float64; totals over many queries are doubles, and what is found is added to what
// they hold: so a call may come some rows at a time (Call::first_row of Call::all_rows).
#pragma once
#include "job.h"

namespace regard {

struct Strongest {
  int64_t k = 0;
  char* weights = nullptr;  // (B, H, all rows, k), 0 where there are fewer
  int64_t* keys = nullptr;  // the same, −1 where there are fewer
};

// The weight on some of the keys first … last: those whose mark is 1 and not 0.
struct Share {
  const uint32_t* marks = nullptr;  // (S,)
  int64_t first = 0, last = 0;
  char* out = nullptr;  // (B, H, all rows)
};

struct Entries {
  const int64_t* keys = nullptr;
  int64_t count = 0;
  char* out = nullptr;  // (B, H, all rows, count)
};

// Blocks of some rows by some keys, each summed up, or its largest weight.
struct Picture {
  bool largest = false;
  int64_t first_row = 0, last_row = 0, block_rows = 1;
  int64_t first_key = 0, last_key = 0, block_keys = 1;
  double* out = nullptr;  // (B, H, height, width)

  __attribute__((always_inline)) int64_t height() const {
    return (last_row - first_row + block_rows - 1) / block_rows;
  }
  __attribute__((always_inline)) int64_t width() const {
    return (last_key - first_key + block_keys - 1) / block_keys;
  }
};

constexpr int MAX_ASKED = 16;  // of each kind that may come more than once

struct Ask {
  char *lse = nullptr, *entropy = nullptr;  // (B, H, all rows)
  double* received = nullptr;               // (B, H, S)
  int64_t received_step = 0;                // from one head's to the next's
  double* distance = nullptr;               // (B, H, all rows + S − 1), of i − j + S − 1
  int strongest_count = 0, share_count = 0, entries_count = 0, picture_count = 0;
  Strongest strongest[MAX_ASKED];
  Share share[MAX_ASKED];
  Entries entries[MAX_ASKED];
  Picture picture[MAX_ASKED];

  // Rows of a picture that `rows` rows of the matrix can touch.
  __attribute__((always_inline)) static int64_t touched(const Picture& p, int64_t rows) {
    const int64_t most = rows / p.block_rows + 2, all = p.height();
    return most < all ? most : all;
  }
  // Doubles that the totals of some rows of one head take.
  __attribute__((always_inline)) int64_t totals(int64_t rows, int64_t S) const {
    int64_t n = received ? S : 0;
    n += distance ? rows + S : 0;
    for (int i = 0; i < picture_count; ++i) n += touched(picture[i], rows) * picture[i].width();
    return n;
  }
};

// Where the totals of a piece of work are added up: in the answers themselves, or, where a head has
// several pieces, in memory of the piece's own that is added to the answers afterwards.
struct Totals {
  double *received = nullptr, *distance = nullptr, *picture[MAX_ASKED];
  int64_t first = 0;                // the row that distance[S − 1] stands for, where j is 0
  int64_t first_pixel[MAX_ASKED];   // the picture's row that its memory begins with

  // Of query head `head` (counted over all entries), the rows from `row` on in a piece of `rows`.
  __attribute__((always_inline)) Totals(const Job& job, const Ask& asked, int64_t head, int64_t row,
                                        int64_t rows, double* own) {
    const int64_t S = job.call.S;
    if (!own) {
      if (asked.received) received = asked.received + head * asked.received_step;
      if (asked.distance) distance = asked.distance + head * (job.call.all_rows + S - 1);
      for (int i = 0; i < asked.picture_count; ++i) {
        const Picture& p = asked.picture[i];
        picture[i] = p.out + head * p.height() * p.width();
        first_pixel[i] = 0;
      }
      return;
    }
    if (asked.received) received = own;
    own += asked.received ? S : 0;
    if (asked.distance) distance = own;
    own += asked.distance ? rows + S : 0;
    first = row;
    for (int i = 0; i < asked.picture_count; ++i) {
      const Picture& p = asked.picture[i];
      picture[i] = own;
      first_pixel[i] = row > p.first_row ? (row - p.first_row) / p.block_rows : 0;
      own += Ask::touched(p, rows) * p.width();
    }
  }
};

void ask(const Call& call, const Ask& asked);

}  // namespace regard
