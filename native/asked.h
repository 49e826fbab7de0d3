// Questions to the weights, in the tile loop: scores are made once, and weights kept for a strip.
//
// A strip is some rows by all keys that they may see.  A tile of it leaves its weights in units of
// its own: e = 2^(score − the row's greatest in this tile), of which no more than the sums are
// known yet.  When the strip is through, each row's normaliser is known and so is, for each of its
// tiles, the one factor that makes weights of e; what is asked of the weights is then read from the
// strip, which is still in the cache.  So one product answers everything, whether or not a
// normaliser is known beforehand.
#pragma once
#include "desk.h"
#include "fold.h"

namespace regard::REGARD_LEVEL {

template <class Kind>
struct Scores {
  static void of(const Job& job, const Place& at, int rows, const float* q, int64_t first,
                 int64_t n, float* s) {
    Kind::products(job, at, rows, q, first, n, s);
  }
};

#if defined(__AMX_BF16__)
template <class Dot>
struct Scores<Tiles<Dot>> {
  static void of(const Job& job, const Place& at, int rows, const float* q, int64_t first,
                 int64_t n, float* s) {
    ProductSteps<Dot> products;
    products.q = q;
    products.keys = packed_keys(job, at, first);
    products.s = s;
    products.step_s = LDS;
    products.depth = job.cut.depth;
    products.keys_left = n;
    products.low = rows <= 16;
    while (products.left() > 0) products.step();
  }
};
#endif

// e of scores; their sum, and that of e · log₂ e.
REGARD_INLINE void weigh_apart(const float* s, int64_t n, float unit, float shift, float* to,
                               float* sum, float* spread) {
  F sum_a = zero(), sum_b = zero(), spread_a = zero(), spread_b = zero();
  // 2^−200 is 0, and so is 0 · −200; −∞ in its stead would be NaN.
  const F u = all(unit), less = all(-shift), low = all(-200);
  for (int64_t j = 0; j < n; j += NR) {
    const F x = larger(low, fma(load(s + j), u, less));
    const F y = larger(low, fma(load(s + j + W), u, less));
    const F a = exp2(x), b = exp2(y);
    sum_a = add(sum_a, a);
    sum_b = add(sum_b, b);
    spread_a = fma(a, x, spread_a);
    spread_b = fma(b, y, spread_b);
    store(to + j, a);
    store(to + j + W, b);
  }
  *sum = total(add(sum_a, sum_b));
  *spread = total(add(spread_a, spread_b));
}

// A number that at least k of the lanes lie above, or −∞; so k of the whole row do.
REGARD_INLINE float bar_of(F a, F b, int64_t k, float most) {
  float low = -largest(larger(sub(zero(), a), sub(zero(), b))), found = -INFINITE;
  // Halving the way to the greatest finds a bar that few others lie above.
  for (int i = 0; k < NR && low > -INFINITE && i < 8; ++i) {
    const float middle = 0.5f * low + 0.5f * most;
    const int there = __builtin_popcount(above(a, all(middle))) +
                      __builtin_popcount(above(b, all(middle)));
    if (there >= k) low = found = middle;
    else most = middle;
  }
  return found;
}

template <class Kind>
struct Asking {
  const Job& job;
  const Ask& asked;
  const Call& call;
  const Place& at;
  Desk& x;
  const bool shaped;
  const float unit;
  int64_t low = 0, high = 0, tiles = 0;  // the strip's keys
  int count = 0;

  Asking(const Job& job, const Ask& asked, const Place& at, Desk& x)
      : job(job),
        asked(asked),
        call(job.call),
        at(at),
        x(x),
        shaped(call.softcap != 0 || call.biases || call.scale == 0),
        unit(shaped ? 1.0f : static_cast<float>(__builtin_fabs(call.scale)) * LOG2E) {}

  // The rows n … n + count of the key head, and the keys that they see.
  void begin(int64_t n, int rows) {
    count = rows;
    low = call.S;
    high = 0;
    for (int i = 0; i < count; ++i) {
      Row& row = x.rows[i];
      set_row(call, at.entry, at.g * (call.H / call.G) + (n + i) / call.T, (n + i) % call.T, row);
      row.mended = pack_query<typename Kind::Dot>(
          call, job.cut, at.entry.q + row.h * call.q.head + row.t * call.q.row, x.q + i * LDQ);
      low = at_most(low, first_seen(call, row, 0));
      high = at_least(high, seen_from(call, row, 0, call.S));
    }
    for (int k = 0; k < asked.strongest_count; ++k)
      for (int i = 0; i < count; ++i) best(k, i).n = 0;
    low = low / NR * NR;
    tiles = high > low ? pieces_of(high - low, KEYS) : 0;
  }

  // One group of rows by the keys of one tile: scores, and the weights in the tile's units.
  void tile(int64_t t, int group) {
    const int r = group * Kind::M, n = (int)at_most(Kind::M, count - r);
    const int64_t begin = low + t * KEYS, end = at_most(begin + KEYS, high);
    int64_t from = end, to = begin;
    for (int i = r; i < r + n; ++i) {
      from = at_most(from, first_seen(call, x.rows[i], begin));
      to = at_least(to, at_most(seen_from(call, x.rows[i], begin, end - 1), end));
    }
    from = from / NR * NR;
    x.from[group * x.tiles + t] = from;
    x.to[group * x.tiles + t] = at_least(from, to);
    if (from >= to) {
      for (int i = r; i < r + n; ++i)
        x.shift[place(t, i)] = x.sum[place(t, i)] = x.spread[place(t, i)] = 0;
      return;
    }
    const int64_t keys = to - from, full = pieces_of(keys, NR) * NR;
    Scores<Kind>::of(job, at, n, x.q + r * LDQ, from, full, x.s);
#if defined(__AMX_BF16__)
    mend_scores<typename Kind::Dot>(job, at, x.rows + r, n, from, to, x.s, LDS);
#endif
    bool whole = true;
    for (int i = r; whole && i < r + n; ++i) whole = sees_all(call, x.rows[i], from, to);
    for (int i = r; i < r + n; ++i) {
      const Row& row = x.rows[i];
      float* s = x.s + (i - r) * LDS;
      if (shaped) shape_row(call, row, from, keys, s);
      if (row.mask) hide_by_bytes(call, row, from, keys, s);
      if (!whole && row.first) hide_by_ranges(call, row, from, keys, s);
      hide(s, keys, full);
      F a = load(s), b = load(s + W);
      for (int64_t j = NR; j < full; j += NR) {
        a = larger(a, load(s + j));
        b = larger(b, load(s + j + W));
      }
      const float most = largest(larger(a, b));
      const float shift = __builtin_fabsf(most) < INFINITE ? most * unit : 0;
      x.shift[place(t, i)] = shift;
      float* e = weights(i) + (from - low);
      weigh_apart(s, full, unit, shift, e, &x.sum[place(t, i)], &x.spread[place(t, i)]);
      for (int k = 0; k < asked.share_count; ++k)
        x.marked[k * x.tiles * x.height + place(t, i)] = on_keys(asked.share[k], e, from, to);
      for (int k = 0; k < asked.strongest_count; ++k) {
        Best<float>& found = best(k, i);
        if (!(most > found.bar())) continue;
        pick(found, found.n < found.k ? bar_of(a, b, found.k, most) : found.bar(), s, from, full);
      }
    }
  }

  // The normaliser of a row, what makes weights of its e, and what needs no more than these.
  void finish(int i) {
    const Row& row = x.rows[i];
    const int64_t to = ((at.b * call.H + row.h) * call.all_rows + call.first_row + row.t);
    float top = -INFINITE, sink = -INFINITE, sum = 0;
    for (int64_t t = 0; t < tiles; ++t)
      if (x.sum[place(t, i)] != 0 && x.shift[place(t, i)] > top) top = x.shift[place(t, i)];
    if (at.entry.sink) {
      std::memcpy(&sink, at.entry.sink + row.h * call.sink.head, 4);
      sink *= LOG2E;
      if (!(sink <= top)) top = sink;
    }
    if (!(__builtin_fabsf(top) < INFINITE)) top = 0;
    for (int64_t t = 0; t < tiles; ++t) {
      float& share = x.factor[place(t, i)];
      share = x.sum[place(t, i)] != 0 ? __builtin_exp2f(x.shift[place(t, i)] - top) : 0;
      if (share != 0) sum += share * x.sum[place(t, i)];
    }
    const float taken = at.entry.sink ? __builtin_exp2f(sink - top) : 0;
    sum += taken;
    const float log = __builtin_log2f(sum);
    float spread = 0;
    for (int64_t t = 0; t < tiles; ++t) {
      float& share = x.factor[place(t, i)];
      if (share == 0) continue;
      share /= sum;
      spread += share * (x.spread[place(t, i)] +
                         (x.shift[place(t, i)] - top - log) * x.sum[place(t, i)]);
    }
    if (taken > 0) spread += taken / sum * (sink - top - log);
    if (asked.lse) put(asked.lse, to, sum == 0 ? -INFINITE : (top + log) * LN2);
    if (asked.entropy) put(asked.entropy, to, spread * -LN2 + 0.0f);
    for (int k = 0; k < asked.strongest_count; ++k)
      write_strongest(asked.strongest[k], to, best(k, i), call.S, sum, [&](float s) {
        return __builtin_exp2f(__builtin_fmaf(s, unit, -top)) / sum;
      });
    for (int k = 0; k < asked.share_count; ++k) {
      float on = 0;
      for (int64_t t = 0; t < tiles; ++t)
        if (x.sum[place(t, i)] != 0)
          on += x.factor[place(t, i)] * x.marked[k * x.tiles * x.height + place(t, i)];
      put(asked.share[k].out, to, on);
    }
    for (int k = 0; k < asked.entries_count; ++k) {
      const Entries& e = asked.entries[k];
      for (int64_t n = 0; n < e.count; ++n) put(e.out, to * e.count + n, weight(i, e.keys[n]));
    }
  }

  // What all rows of the strip add to the totals.
  void add_up(int64_t piece) {
    const Ask& a = asked;
    if (tiles == 0 || !(a.received || a.distance || a.picture_count)) return;
    for (int i = 0; i < count;) {
      const Row& row = x.rows[i];
      const int end = (int)at_most(count, i + call.T - row.t);
      const Totals totals(job, a, at.b * call.H + row.h, call.first_row + at.from % call.T,
                          job.cut.strip_rows, own_totals(job, a, piece));
      if (a.received || a.picture_count)
        for (int j = i; j < end;) {
          const int next = one_row_of_pixels(j, end);
          add_columns(j, next);
          into(totals, call.first_row + x.rows[j].t);
          j = next;
        }
      if (a.distance) add_diagonals(i, end, totals);
      i = end;
    }
  }

 private:
  int64_t place(int64_t tile, int64_t row) const { return tile * x.height + row; }
  float* weights(int64_t row) const { return x.e + row * x.width; }
  Best<float>& best(int question, int64_t row) const { return x.best[question * x.height + row]; }
  static void put(char* out, int64_t n, float value) { reinterpret_cast<float*>(out)[n] = value; }

  // Offers what lies above `bar`, and above the heap's own bar where that is higher.
  static void pick(Best<float>& best, float bar, const float* s, int64_t first, int64_t n) {
    for (int64_t j = 0; j < n; j += W)
      for (unsigned found = above(load(s + j), all(bar)); found; found &= found - 1) {
        const int i = __builtin_ctz(found);
        if (!(s[j + i] > bar)) continue;
        best.offer(s[j + i], first + j + i);
        if (best.bar() > bar) bar = best.bar();
      }
  }

  // fn(tile, its first key, one after its last) for the tiles of row i between these keys.
  template <class Fn>
  REGARD_INLINE void each(const Asking& a, int64_t i, int64_t first, int64_t last, Fn fn) {
    first = at_least(first, a.low);
    last = at_most(last, a.high);
    if (first >= last) return;
    const int64_t at = i / Kind::M * a.x.tiles;
    for (int64_t t = (first - a.low) / KEYS; t <= (last - 1 - a.low) / KEYS; ++t) {
      const int64_t from = at_least(first, a.x.from[at + t]), to = at_most(last, a.x.to[at + t]);
      if (from < to) fn(t, from, to);
    }
  }

  // Σ e of a share's keys, from the weights of the keys from … to.
  static float on_keys(const Share& share, const float* e, int64_t from, int64_t to) {
    const int64_t first = at_least(share.first, from), last = at_most(share.last, to);
    return first < last ? sum_marked(e + (first - from), share.marks + first, last - first) : 0;
  }

  float weight(int64_t i, int64_t key) const {
    float w = 0;
    each(*this, i, key, key + 1, [&](int64_t t, int64_t from, int64_t) {
      w = x.factor[place(t, i)] * weights(i)[from - low];
    });
    return w;
  }

  // Where the rows that share with row j the head and, in every picture, the row of pixels, end.
  int one_row_of_pixels(int j, int end) const {
    const int64_t row = call.first_row + x.rows[j].t;
    for (int k = 0; k < asked.picture_count; ++k) {
      const Picture& p = asked.picture[k];
      int64_t next = p.first_row;
      if (row >= p.last_row) continue;
      if (row >= next)
        next = at_most(next + ((row - next) / p.block_rows + 1) * p.block_rows, p.last_row);
      end = (int)at_most(end, j + next - row);
    }
    return end;
  }

  void add_columns(int first, int last) {
    const int64_t span = pieces_of(high - low, NR) * NR;
    bool largest = false;
    for (int k = 0; k < asked.picture_count; ++k) largest |= asked.picture[k].largest;
    std::memset(x.columns, 0, span * 4);
    if (largest) std::memset(x.tops, 0, span * 4);
    for (int i = first; i < last;) {
      const int next = (int)at_most(last, i / Kind::M * Kind::M + Kind::M);
      each(*this, i, low, high, [&](int64_t t, int64_t from, int64_t to) {
        const float *e = weights(i) + (from - low), *factor = x.factor + place(t, i);
        const int64_t n = pieces_of(to - from, NR) * NR;
        add_rows(e, x.width, factor, next - i, n, x.columns + (from - low));
        if (largest) top_rows(e, x.width, factor, next - i, n, x.tops + (from - low));
      });
      i = next;
    }
  }

  void into(const Totals& totals, int64_t row) const {
    const int64_t end = at_most(high, call.S);
    if (totals.received)
      for (int64_t j = low; j < end; ++j) totals.received[j] += x.columns[j - low];
    for (int k = 0; k < asked.picture_count; ++k) {
      const Picture& p = asked.picture[k];
      if (row < p.first_row || row >= p.last_row) continue;
      double* line = totals.picture[k] +
                     ((row - p.first_row) / p.block_rows - totals.first_pixel[k]) * p.width();
      fold(p, x.columns - low, x.tops - low, low, end, line);
    }
  }

  void add_diagonals(int first, int last, const Totals& totals) {
    const int64_t n = high - low + last - first - 1;
    std::memset(x.diagonal, 0, n * 4);
    // Whole rows at a time: what they have stored is read, a few numbers on, only after a while.
    for (int i = first, rows; i < last; i += rows) {
      const bool four = i + 4 <= at_most(last, i / Kind::M * Kind::M + Kind::M);
      rows = four ? 4 : 1;
      each(*this, i, low, high, [&](int64_t t, int64_t from, int64_t to) {
        (four ? add_diagonally<4> : add_diagonally<1>)(
            weights(i) + (from - low), x.width, x.factor + place(t, i), to - from,
            x.diagonal + (from - low) + (last - i - rows));
      });
    }
    // The first of them is that of the last row and the first key.
    const int64_t far = call.first_row + x.rows[last - 1].t - low;
    double* to = totals.distance + (far - totals.first + call.S - 1);
    for (int64_t d = 0; d < n; ++d) to[-d] += x.diagonal[d];
  }
};

// One piece of work: some rows of a head, or all those of a few, strip by strip.
template <class Kind>
static void answer(const Job& job, const Ask& asked, int64_t piece, char* scratch) {
  const Place at(job, piece, 0);
  Desk desk;
  desk.lay_out<Kind>(job.call, asked, scratch);
  if (double* own = own_totals(job, asked, piece))
    std::memset(own, 0, asked.totals(job.cut.strip_rows, job.call.S) * 8);
  Kind::begin();
  for (int64_t n = at.from; n < at.to; n += desk.height) {
    Asking<Kind> strip(job, asked, at, desk);
    strip.begin(n, (int)at_most(desk.height, at.to - n));
    const int groups = (int)pieces_of(strip.count, Kind::M);
    for (int64_t t = 0; t < strip.tiles; ++t)
      for (int g = 0; g < groups; ++g) strip.tile(t, g);
    for (int i = 0; i < strip.count; ++i) strip.finish(i);
    strip.add_up(piece);
  }
  Kind::end();
}

}  // namespace regard::REGARD_LEVEL
