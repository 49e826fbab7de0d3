// Tiles in a pipeline: while one is softened, the tile unit multiplies for the next and the last.
//
// The two kinds of work use different parts of a core, and the processor looks ahead by some hundred
// instructions only: so a few of the one are done after each row of the other.
#pragma once
#include "tile.h"

namespace regard::REGARD_LEVEL {

template <class Kind>
struct TilingOf {
  using type = InTurn<Kind>;
};

#if defined(__AMX_BF16__)

// The scores of a tile, 32 keys by 32 numbers of the depth at a time.
template <class Dot>
struct ProductSteps {
  const float *q = nullptr, *keys = nullptr;
  float* s = nullptr;
  int64_t step_s = LDT, depth = 0, keys_left = 0, d = 0;
  Turns<Dot, 0> turns;
  bool low = false;

  int64_t left() const { return keys_left / NR * (depth / (NR / Dot::terms)) * turns.all; }
  void step() {
    if (d == 0 && turns.begins()) zero_tiles(low);
    if (!turns.multiply(low, true, q + d, LDQ, keys + d * NR)) return;
    if ((d += NR / Dot::terms) < depth) return;
    store_tiles(low, true, s, step_s);
    d = 0;
    s += NR;
    keys += depth * NR;
    keys_left -= NR;
  }
};

// What a tile adds to the output, 32 keys by 32 columns at a time.
template <class Dot>
struct MixSteps {
  const float *s = nullptr, *values = nullptr;
  float* out = nullptr;
  int64_t out_step = 0, panel = 0, units = 0, columns = 0, d = 0;
  Turns<Dot, 1> turns;
  bool low = false;

  int64_t left() const {
    return pieces_of(columns, NR) * (units / (NR / Dot::terms)) * turns.all;
  }
  void step() {
    const bool two = columns > W;
    if (d == 0 && turns.begins()) load_tiles(low, two, out, out_step);
    if (!turns.multiply(low, two, s + d, LDT, values + d * NR)) return;
    if ((d += NR / Dot::terms) < units) return;
    store_tiles(low, two, out, out_step);
    d = 0;
    out += NR;
    values += panel;
    columns -= NR;
  }
};

template <class Dot>
struct Pipeline {
  const Job& job;
  const Place& at;
  Scratch& x;
  Tile *last = nullptr, *now = nullptr;  // softened; with its scores
  int used = 0;

  void add(int r, int count, int64_t first, int64_t end) {
    Tile* next = &x.tiles[used++ % 3];
    next->r = r;
    next->count = count;
    next->first = first;
    next->last = end;
    next->full = pieces_of(end - first, NR) * NR;
    ProductSteps<Dot> products;
    products.q = x.q + r * LDQ;
    products.keys = packed_keys(job, at, first);
    products.s = next->s;
    products.depth = job.cut.depth;
    products.keys_left = next->full;
    products.low = count <= 16;
    advance(products);
    last = now;
    now = next;
  }
  void finish() {
    advance({});
    last = now;
    now = nullptr;
    advance({});
  }

 private:
  MixSteps<Dot> mix_of(const Tile& tile) {
    MixSteps<Dot> m;
    if (prepare<Tiles<Dot>>(job, at, x, tile)) return m;
    m.s = tile.s;
    m.values = packed_values<Dot>(job, at, tile.first);
    m.out = x.out + tile.r * job.cut.out_step;
    m.out_step = job.cut.out_step;
    m.panel = job.cut.panels * NR / Dot::terms * NR;
    m.units = tile.full / Dot::terms;
    m.columns = job.call.E;
    m.low = tile.count <= 16;
    return m;
  }

  // Softens the tile that has its scores, and meanwhile does all of these products and of the mix
  // of the one before.
  void advance(ProductSteps<Dot> products) {
    MixSteps<Dot> mix;
    if (last) mix = mix_of(*last);
    int64_t left = products.left(), todo = left + mix.left(), due = 0;
    const int64_t all = todo;
    auto one = [&] {
      if (left > 0) {
        products.step();
        --left;
      } else {
        mix.step();
      }
      --todo;
    };
    if (now) {
      const int64_t slots = 4 * now->count;
      soften<Tiles<Dot>>(job, at, x, *now, [&](int parts) {
        for (due += parts * all; due >= slots && todo > 0; due -= slots) one();
      });
    }
    while (todo > 0) one();
  }
};

template <class Dot>
struct TilingOf<Tiles<Dot>> {
  using type = Pipeline<Dot>;
};

#endif

}  // namespace regard::REGARD_LEVEL
