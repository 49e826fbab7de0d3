// One piece of the backward pass: some query rows of a key head, block by block, by all the keys that
// they may see.
//
//     P = exp(S − lse),  dV += Pᵀ dO,  dS = P (dO Vᵀ − delta),  dQ += dS K,  dK += dSᵀ Q
//
// The gradients of keys and values are summed turned, [number][key], as scores lie: so the weights
// are right-hand sides as they are, and only queries and cotangents are turned, once a block.
//
// Source: Dao et al. 2022 (FlashAttention), appendix B.4.
#pragma once
#include "piece.h"

namespace regard::REGARD_LEVEL {

template <class Kind>
struct Block {
  using Dot = typename Kind::Dot;
  const BackJob& job;
  const Piece& at;
  BackScratch& x;
  const float *keys, *values, *straight;  // the key head, laid out
  float *key_sums, *value_sums;
  int count = 0, filled = 0;  // rows, and how many these are with those of zeros
  bool whole = false;         // every row of a tile sees every key

  void begin(int64_t from, int64_t to) {
    const Call& call = job.call;
    count = static_cast<int>(to - from);
    filled = static_cast<int>(pieces_of(count, Kind::STEP) * Kind::STEP);
    bool unclean = false;
    for (int i = 0; i < count; ++i) {
      const int64_t n = from + i, h = at.g * (call.H / call.G) + n / call.T, t = n % call.T;
      set_row(call, at.entry, h, t, x.rows[i]);
      const char* q = at.entry.q + h * call.q.head + t * call.q.row;
      const char* along = at.along + h * job.want.along.head + t * job.want.along.row;
      const char* out = at.entry.out + h * call.out.head + t * call.out.row;
      F product = zero();
      for (int64_t e = 0; e < call.E; e += W)
        product = fma(row_floats(along, call.dtype, e, call.E),
                      row_floats(out, call.dtype, e, call.E), product);
      float delta = total(product);
      double lse;
      std::memcpy(&lse, at.entry.lse + h * call.lse.head + t * call.lse.row, 8);
      if (at.along_lse)
        delta -= number_at(at.along_lse + h * job.want.along_lse.head +
                               t * job.want.along_lse.row, Dtype::f32);
      const bool empty = lse == -INFINITE;
      unclean |= !(empty || __builtin_fabs(lse) < INFINITE) ||
                 !(__builtin_fabsf(delta) < INFINITE) || !finite(q, call.dtype, call.D);
      Asked& asked = x.asked[i];
      const double shift = lse * 1.4426950408889634;
      asked.shift = empty ? INFINITE : static_cast<float>(shift);
      asked.rest = empty ? 0 : static_cast<float>(shift - asked.shift);
      asked.delta = delta;
      for (int k = 0; k < call.biases; ++k)
        if (const Array& to = job.want.bias[k]; to.data)
          asked.bias[k] = to.data + call.at(to.lead, at.b) + h * to.head + t * to.row;
      lay_row(q, call.D, job.cut.depth, call.scale < 0, x.q + i * LDA);
      lay_row(along, call.E, job.cut.value_depth, false, x.along + i * LDA);
    }
    for (int i = count; i < ROWS; ++i) {
      x.asked[i].shift = INFINITE;
      x.asked[i].rest = 0;
      x.asked[i].delta = 0;
      std::memset(x.q + i * LDA, 0, pieces_of(job.cut.depth, W) * W * 4);
      std::memset(x.along + i * LDA, 0, pieces_of(job.cut.value_depth, W) * W * 4);
    }
    turn_rows(x.q, job.cut.tall, x.q_turned);
    turn_rows(x.along, job.cut.value_tall, x.along_turned);
    for (int i = 0; i < filled; ++i) std::memset(x.dq + i * LDA, 0, pieces_of(call.D, NR) * NR * 4);
    if (unclean) __atomic_store_n(job.unclean, 1, __ATOMIC_RELAXED);
  }

  void add(int64_t first, int64_t last) {
    const Call& call = job.call;
    const BackCut& cut = job.cut;
    const int64_t n = last - first, full = pieces_of(n, NR) * NR;
    find_spans(first, last, full);
    for (int64_t j = 0; j < full; j += NR) {
      const Span rows = x.rows_of[j / NR];
      const int64_t r = rows.from / Kind::LOW * Kind::LOW, some = rows.to - r;
      if (rows.from >= rows.to) continue;
      ask_for_biases(call, x.rows + rows.from, at_most(rows.to, count) - rows.from, first + j,
                     first + j + NR);
      Kind::score(some, x.q + r * LDA, keys + (first + j) * cut.depth, cut.depth,
                  x.s + r * LDA + j);
      Kind::multiply(some, false, x.along + r * LDA, values + (first + j) * cut.value_depth, NR,
                     cut.value_depth, x.dp + r * LDA + j, LDA, true);
    }
    soften(first, last, full);
    const float* rows = Dot::mate == 0 ? x.dp : x.ds;
    const int64_t column_step = cut.panels * NR / Dot::terms * NR;
    const int64_t groups = job.want.q.data ? pieces_of(filled, Kind::M) : 0;
    for (int64_t i = 0; i < groups; ++i) {
      const int64_t r = Kind::LOW > 1 ? i * Kind::M : filled * i / groups;
      const int64_t end = Kind::LOW > 1 ? at_most(r + Kind::M, filled) : filled * (i + 1) / groups;
      Span all = x.keys_of[r];
      for (int64_t a = r + 1; a < at_most(end, count); ++a) all.widen(x.keys_of[a]);
      if (all.from >= all.to) continue;
      const int64_t unit = all.from / Dot::terms, units = (all.to - all.from) / Dot::terms;
      for (int64_t p = 0; p * NR < call.D; ++p)
        Kind::multiply(end - r, call.D - p * NR <= W, rows + r * LDA + unit,
                       straight + p * column_step + (first / Dot::terms + unit) * NR, NR, units,
                       x.dq + r * LDA + p * NR, LDA, false);
    }
    for (int64_t j = 0; j < full; j += NR) {
      const int64_t panel = (first + j) / NR;
      const int64_t r = x.rows_of[j / NR].from / Kind::STEP * Kind::STEP;
      const int64_t unit = r / Dot::terms;
      const int64_t units = pieces_of(x.rows_of[j / NR].to - r, Kind::STEP) * Kind::STEP / Dot::terms;
      if (units <= 0) continue;
      if (job.want.v.data)
        Kind::multiply(cut.value_tall, false, x.along_turned + unit, x.s + r * LDA + j,
                       Dot::terms * LDA, units, value_sums + panel * cut.value_tall * NR, NR,
                       false);
      if (job.want.k.data)
        Kind::multiply(cut.tall, false, x.q_turned + unit, x.dp + r * LDA + j, Dot::terms * LDA,
                       units, key_sums + panel * cut.tall * NR, NR, false);
    }
  }

  void finish() {
    const Call& call = job.call;
    const Array& to = job.want.q;
    if (!to.data) return;
    for (int i = 0; i < count; ++i) {
      const Row& row = x.rows[i];
      write_row(to.data + call.at(to.lead, at.b) + row.h * to.head + row.t * to.row,
                job.want.dtype, call.D, x.dq + i * LDA, static_cast<float>(call.scale));
    }
  }

 private:
  void lay_row(const char* row, int64_t width, int64_t depth, bool minus, float* to) {
#if defined(__AMX_BF16__)
    if constexpr (__is_same(Dot, Halves)) {
      for (int64_t d = 0; d < depth; d += NR)
        lay_halves(row, job.call.dtype, d, width, all(minus ? -1 : 1), to + d);
      return;
    }
#endif
    for (int64_t d = 0; d < depth; d += W) {
      F u = row_units<Dot>(row, job.call.dtype, d, width);
      store(to + d, minus ? opposite<Dot>(u) : u);
    }
  }

  // [row][unit of numbers] to [number][unit of rows].
  static void turn_rows(const float* rows, int64_t tall, float* to) {
    constexpr int AT_ONCE = W * (Dot::mate == 0 ? 1 : 2);
    for (int64_t r = 0; r < ROWS; r += AT_ONCE)
      for (int64_t d = 0; d < tall; d += AT_ONCE) {
        if constexpr (Dot::mate == 0) {
          F y[W];
          for (int i = 0; i < W; ++i) y[i] = load(rows + (r + i) * LDA + d);
          turn(y);
          for (int i = 0; i < W; ++i) store(to + (d + i) * LDA + r, y[i]);
        } else if constexpr (Dot::terms == 1) {
#if defined(__AMX_BF16__)
          turn_halves(rows + r * LDA + d, LDA, to + d * LDA + r);
#endif
        } else {
#if defined(__AVX512BF16__)
          alignas(64) float pairs[W][NR];
          for (int i = 0; i < W; ++i) {
            const float* two = rows + (r + 2 * i) * LDA + d / 2;
            store_pairs(load(two), load(two + LDA), pairs[i]);
          }
          for (int half = 0; half < NR; half += W) {
            F y[W];
            for (int i = 0; i < W; ++i) y[i] = load(pairs[i] + half);
            turn(y);
            for (int i = 0; i < W; ++i) store(to + (d + half + i) * LDA + r / 2, y[i]);
          }
#endif
        }
      }
  }

  void find_spans(int64_t first, int64_t last, int64_t full) {
    const int panels = static_cast<int>(full / NR);
    bool all = true;
    for (int i = 0; i < count && all; ++i) all = sees_all(job.call, x.rows[i], first, last);
    for (int i = 0; i < ROWS; ++i) x.keys_of[i] = {0, i < filled && all ? (int)full : 0};
    for (int p = 0; p < panels; ++p) x.rows_of[p] = {0, all ? filled : 0};
    for (int i = 0; i < count && !all; ++i) {
      const Row& row = x.rows[i];
      Span& keys = x.keys_of[i];
      for (int64_t k = 0; k < job.call.ranges; ++k) {
        const int64_t a = at_least(row.first[k], first), b = at_most(row.last[k], last);
        if (a < b) keys.widen({(int)((a - first) / NR * NR), (int)(pieces_of(b - first, NR) * NR)});
      }
      const int r = i / Dot::terms * Dot::terms;
      for (int p = keys.from / NR; p < keys.to / NR; ++p) x.rows_of[p].widen({r, r + Dot::terms});
    }
    whole = all && !job.call.mask.data;
  }

  // The keys that a row is softened for: those of the one that it makes pairs with too.
  Span span_of(int i) const {
    Span span = x.keys_of[i];
    if (Dot::mate > 0) span.widen(x.keys_of[i ^ Dot::mate]);
    return span;
  }

  static void clear(float* row, int64_t from, int64_t to) {
    if (from < to) std::memset(row + from, 0, (to - from) * 4);
  }

  void soften(int64_t first, int64_t last, int64_t full) {
    const Call& call = job.call;
    const int64_t n = last - first;
    const bool shaped = call.softcap != 0 || call.biases || call.scale == 0;
    bool learned = false;
    for (int i = 0; i < call.biases; ++i) learned |= job.want.bias[i].data != nullptr;
    const Weighing weighing(
        call, shaped ? 1.0f : static_cast<float>(__builtin_fabs(call.scale)) * LOG2E);
    const uint32_t* draws = job.draws ? job.draws + first : nullptr;
    const bool plain = !call.softcap && !learned;
    for (int i = 0; i < filled; ++i) {
      const Span span = span_of(i);
      const int64_t from = first + span.from, some = at_most(span.to, n) - span.from;
      const int64_t wide = span.to - span.from;
      float *s = x.s + i * LDA, *dp = x.dp + i * LDA;
      const Row& row = x.rows[i];
      if (wide < full)
        for (float* hidden[] = {s, dp}; float* one : hidden) {
          clear(one, 0, span.from);
          clear(one, span.to, full);
        }
      s += span.from;
      dp += span.from;
      if (wide <= 0) continue;
      if (i < count) {
        if (call.softcap) cap_slopes(call, wide, s, x.slopes);
        if (shaped) shape_row(call, row, from, some, s);
        if (row.mask) hide_by_bytes(call, row, from, some, s);
        if (!whole && row.first) hide_by_ranges(call, row, from, some, s);
      }
      hide(s, some, wide);
      if (Dot::mate > 0 && plain) continue;
      if (draws) weighing.template row<true>(x.asked[i], row.draw, draws + span.from, wide, s, dp);
      else weighing.template row<false>(x.asked[i], 0, nullptr, wide, s, dp);
      if (learned && i < count) add_to_bias(call, job.want, x.asked[i], from, some, dp);
      if (call.softcap)
        for (int64_t j = 0; j < wide; j += W) store(dp + j, mul(load(dp + j), load(x.slopes + j)));
    }
#if defined(__AVX512BF16__)
    if constexpr (Dot::mate > 0)
      for (int i = 0; i < filled; ++i) {
        constexpr int mate = Dot::mate;
        if (i & mate) continue;
        const Span span = span_of(i);
        const int64_t wide = span.to - span.from;
        const uint32_t* here = draws ? draws + span.from : nullptr;
        for (int r = i; r <= i + mate; r += mate) {
          clear(x.ds + r * LDA, 0, span.from / Dot::terms);
          clear(x.ds + r * LDA, span.to / Dot::terms, full / Dot::terms);
        }
        float *s = x.s + i * LDA + span.from, *dp = x.dp + i * LDA + span.from;
        float* ds = x.ds + i * LDA + span.from / Dot::terms;
        const Asked &one = x.asked[i], &other = x.asked[i + mate];
        const F less[2] = {all(-one.shift), all(-other.shift)};
        const F rest[2] = {all(one.rest), all(other.rest)};
        const F delta[2] = {all(one.delta), all(other.delta)};
        const I seed[2] = {all_int(x.rows[i].draw), all_int(x.rows[i + mate].draw)};
        if (!plain) pair_rows<Dot>(wide, s, dp, ds, [](F&, F&, int, int64_t) {});
        else if (draws)
          pair_rows<Dot>(wide, s, dp, ds, [&](F& p, F& d, int r, int64_t j) {
            weighing.template one<true>(p, d, less[r], rest[r], delta[r], seed[r], here + j);
          });
        else
          pair_rows<Dot>(wide, s, dp, ds, [&](F& p, F& d, int r, int64_t) {
            weighing.template one<false>(p, d, less[r], rest[r], delta[r], seed[r], nullptr);
          });
      }
#endif
  }
};

// Keys and values laid out, from low to high.
template <class Kind>
static void lay_out(const BackJob& job, const Piece& at, float* keys, float* values,
                    float* straight) {
  using Dot = typename Kind::Dot;
  const Call& call = job.call;
  const BackCut& cut = job.cut;
  bool unclean = false;
  for (int64_t j = at.low; j < at.high; j += NR) {
    const int64_t there = at_most(NR, call.S - j);
    const char* key = at.entry.k + at.g * call.k.head + j * call.k.row;
    const char* value = at.entry.v + at.g * call.v.head + j * call.v.row;
    pack_turned<Dot>(key, call.k.row, call.dtype, there, call.D, cut.depth, keys + j * cut.depth);
    pack_turned<Dot>(value, call.v.row, call.dtype, there, call.E, cut.value_depth,
                     values + j * cut.value_depth);
    unclean |= pack_straight<Dot>(key, call.k.row, call.dtype, there, call.D,
                                  straight + j / Dot::terms * NR, cut.panels * NR / Dot::terms * NR);
    for (int64_t i = 0; i < there; ++i)
      unclean |= !finite(value + i * call.v.row, call.dtype, call.E);
  }
  if (unclean) __atomic_store_n(job.unclean, 1, __ATOMIC_RELAXED);
}

// The gradients of a panel's keys (or values) as rows, from the sums of all parts that have any.
static void write_panel(const BackJob& job, const Array& to, int64_t b, int64_t g, int64_t panel,
                        const float* const* sums, const int64_t* const* hulls, int64_t tall,
                        int64_t width, float factor) {
  if (!to.data) return;
  const Call& call = job.call;
  alignas(64) float rows[NR][WIDEST];
  for (int64_t d = 0; d < width; d += W)
    for (int half = 0; half < NR; half += W) {
      F y[W];
      for (int i = 0; i < W; ++i) {
        y[i] = zero();
        for (int64_t part = 0; part < job.cut.parts && d + i < tall; ++part)
          if (hulls[part][0] <= panel * NR && panel * NR < hulls[part][1])
            y[i] = add(y[i], load(sums[part] + (panel * tall + d + i) * NR + half));
      }
      turn(y);
      for (int i = 0; i < W; ++i) store(rows[half + i] + d, y[i]);
    }
  char* head = to.data + call.at(to.lead, b) + g * to.head;
  for (int64_t i = 0; i < at_most(NR, call.S - panel * NR); ++i)
    write_row(head + (panel * NR + i) * to.row, job.want.dtype, width, rows[i], factor);
}

static void write_keys(const BackJob& job, int64_t b, int64_t g, int64_t panel, int64_t panels,
                       const float* const* sums, const int64_t* const* hulls) {
  const BackCut& cut = job.cut;
  const float* values[MOST_PARTS];
  for (int64_t i = 0; i < cut.parts; ++i) values[i] = sums[i] + cut.panels * cut.tall * NR;
  for (int64_t p = panel; p < panel + panels; ++p) {
    write_panel(job, job.want.k, b, g, p, sums, hulls, cut.tall, job.call.D,
                static_cast<float>(__builtin_fabs(job.call.scale)));
    write_panel(job, job.want.v, b, g, p, values, hulls, cut.value_tall, job.call.E, 1);
  }
}

template <class Kind>
static void back_piece(const BackJob& job, int64_t number, BackScratch& x, float* packed,
                       float* sums) {
  const BackCut& cut = job.cut;
  const Piece at(job, number);
  float *keys = packed, *values = keys + cut.keys, *straight = values + cut.values;
  float* value_sums = sums + cut.panels * cut.tall * NR;
  lay_out<Kind>(job, at, keys, values, straight);
  const int64_t first = at.low / NR, panels = at.low < at.high ? pieces_of(at.high, NR) - first : 0;
  std::memset(sums + first * cut.tall * NR, 0, panels * cut.tall * NR * 4);
  std::memset(value_sums + first * cut.value_tall * NR, 0, panels * cut.value_tall * NR * 4);
  // What is not computed is finite, and its weight is 0.
  std::memset(x.s, 0, sizeof x.s);
  std::memset(x.dp, 0, sizeof x.dp);
  Kind::begin();
  Block<Kind> block{job, at, x, keys, values, straight, sums, value_sums};
  for (int64_t i = at.first_block; i < at.last_block; ++i) {
    block.begin(Piece::from(cut, i), Piece::to(cut, i));
    for_stretches(job.call, x.rows, block.count, at.low, at.high, [&](int64_t low, int64_t high) {
      for (; low < high; low += TILE) block.add(low, at_most(low + TILE, high));
    });
    block.finish();
  }
  Kind::end();
  streamed();
  const int64_t hull[2] = {at.low, at.high};
  if (cut.parts > 1) {
    std::memcpy(job.hulls + number * 2, hull, sizeof hull);
    return;
  }
  const float* mine = sums;
  const int64_t* here = hull;
  write_keys(job, at.b, at.g, 0, cut.panels, &mine, &here);
}

}  // namespace regard::REGARD_LEVEL
