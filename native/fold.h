// Weights of some rows added up: by columns, along diagonals, in blocks.
#pragma once
#include "best.h"

namespace regard::REGARD_LEVEL {

REGARD_INLINE float sum_of(const float* x, int64_t n) {
  F a = zero(), b = zero();
  int64_t j = 0;
  for (; j + NR <= n; j += NR) {
    a = add(a, load(x + j));
    b = add(b, load(x + j + W));
  }
  for (; j + W <= n; j += W) a = add(a, load(x + j));
  float sum = j ? total(add(a, b)) : 0;
  for (; j < n; ++j) sum += x[j];
  return sum;
}

// Of those whose mark is 1; an infinite one that is not takes no part.
REGARD_INLINE float sum_marked(const float* x, const uint32_t* marks, int64_t n) {
  F a = zero(), b = zero();
  int64_t j = 0;
  for (; j + NR <= n; j += NR) {
    a = add(a, kept(load(x + j), load_int(marks + j), 1));
    b = add(b, kept(load(x + j + W), load_int(marks + j + W), 1));
  }
  float sum = j ? total(add(a, b)) : 0;
  for (; j < n; ++j) sum += marks[j] ? x[j] : 0;
  return sum;
}

// to[…] += Σ_r factor[r] · e[r][…]; n is a multiple of NR.
static void add_rows(const float* e, int64_t step, const float* factor, int rows, int64_t n,
                     float* to) {
  for (int64_t j = 0; j < n; j += NR) {
    F a = load(to + j), b = load(to + j + W);
    const float* at = e + j;
    for (int r = 0; r < rows; ++r, at += step) {
      const F f = all(factor[r]);
      a = fma(load(at), f, a);
      b = fma(load(at + W), f, b);
    }
    store(to + j, a);
    store(to + j + W, b);
  }
}

// The same with the largest instead of the sum; NaN need not be found.
static void top_rows(const float* e, int64_t step, const float* factor, int rows, int64_t n,
                     float* to) {
  for (int64_t j = 0; j < n; j += W) {
    F a = load(to + j);
    for (int r = 0; r < rows; ++r) a = larger(mul(load(e + r * step + j), all(factor[r])), a);
    store(to + j, a);
  }
}

// to[R − 1 − r + j] += factor[r] · e[r][j]: along the diagonals of R rows.
template <int R>
static void add_diagonally(const float* e, int64_t step, const float* factor, int64_t n,
                           float* to) {
  auto add_at = [&](int64_t d) {
    for (int r = 0; r < R; ++r) {
      const int64_t j = d - (R - 1 - r);
      if (0 <= j && j < n) to[d] += factor[r] * e[r * step + j];
    }
  };
  int64_t d = 0;
  for (; d < R - 1; ++d) add_at(d);
  for (; d + W <= n; d += W) {
    F sum = load(to + d);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      sum = fma(load(e + r * step + d - (R - 1 - r)), all(factor[r]), sum);
    store(to + d, sum);
  }
  for (; d < n + R - 1; ++d) add_at(d);
}

// What the keys low … high add to a row of pixels, from their columns' sums and largest weights.
static void fold(const Picture& p, const float* sums, const float* tops, int64_t low, int64_t high,
                 double* pixels) {
  low = at_least(low, p.first_key);
  high = at_most(high, p.last_key);
  if (low >= high) return;
  pixels += (low - p.first_key) / p.block_keys;
  int64_t next = low + p.block_keys - (low - p.first_key) % p.block_keys;
  for (int64_t j = low; j < high; j = next, next += p.block_keys, ++pixels) {
    next = at_most(next, high);
    const float sum = sum_of(sums + j, next - j);
    if (!p.largest) {
      *pixels += sum;
      continue;
    }
    float top = 0;
    for (int64_t i = j; i < next; ++i) top = tops[i] > top ? tops[i] : top;
    if (sum != sum) top = sum;  // NaN, which comparisons pass over
    if (top > *pixels || top != top) *pixels = top;
  }
}

// Where a piece of work adds up its totals, if not in the answers themselves.
REGARD_INLINE double* own_totals(const Job& job, const Ask& asked, int64_t piece) {
  if (job.cut.strips == 1) return nullptr;
  return reinterpret_cast<double*>(job.partial) +
         piece * asked.totals(job.cut.strip_rows, job.call.S);
}

// The totals of a head's pieces, in their order, added to the answers.
static void merge_totals(const Job& job, const Ask& asked, int64_t segment) {
  const Call& call = job.call;
  const Cut& cut = job.cut;
  const int64_t rows = cut.strip_rows, S = call.S;
  // A segment is one head here, and its strips are numbered from the last on.
  const Totals all(job, asked, segment, call.first_row, call.T, nullptr);
  for (int64_t strip = 0; strip < cut.strips; ++strip) {
    const int64_t row = call.first_row + strip * rows;
    const int64_t piece = segment * cut.strips + cut.strips - 1 - strip;
    const Totals part(job, asked, segment, row, rows, own_totals(job, asked, piece));
    for (int64_t j = 0; part.received && j < S; ++j) all.received[j] += part.received[j];
    const int64_t there = at_most(rows, call.T - strip * rows);
    for (int64_t d = 0; part.distance && d < there + S - 1; ++d)
      all.distance[row + d] += part.distance[d];
    for (int k = 0; k < asked.picture_count; ++k) {
      const Picture& p = asked.picture[k];
      const int64_t first = part.first_pixel[k] * p.width();
      const int64_t n = at_most(Ask::touched(p, rows), p.height() - part.first_pixel[k]) * p.width();
      for (int64_t i = 0; i < n; ++i) {
        double& to = all.picture[k][first + i];
        const double from = part.picture[k][i];
        if (!p.largest) to += from;
        else if (from > to || from != from) to = from;
      }
    }
  }
}

}  // namespace regard::REGARD_LEVEL
