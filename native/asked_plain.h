// Questions in float64, plainly: one row after another, all of it in doubles.
#pragma once
#include "asked.h"
#include "plain.h"

namespace regard::REGARD_LEVEL {

// A thread's memory: the weights of a row, and a heap for each question.
struct PlainDesk {
  double *w, *scores[MAX_ASKED];
  int64_t* keys[MAX_ASKED];
};

static size_t plain_desk(const Call& call, const Ask& asked, PlainDesk* desk, char* at) {
  size_t used = 0;
  auto take = [&](auto* pointer, int64_t count) {
    if (desk) *pointer = (decltype(*pointer + 0))(at + used);
    used += (count * 8 + 63) / 64 * 64;
  };
  take(desk ? &desk->w : nullptr, call.S);
  for (int k = 0; k < asked.strongest_count; ++k) {
    take(desk ? &desk->scores[k] : nullptr, asked.strongest[k].k);
    take(desk ? &desk->keys[k] : nullptr, asked.strongest[k].k);
  }
  return used;
}

static void plain_totals(const Call& call, const Ask& asked, const Totals& totals, int64_t row,
                         const double* w, int64_t low, int64_t high) {
  for (int64_t j = low; totals.received && j < high; ++j) totals.received[j] += w[j];
  for (int64_t j = low; totals.distance && j < high; ++j)
    totals.distance[row - totals.first - j + call.S - 1] += w[j];
  for (int k = 0; k < asked.picture_count; ++k) {
    const Picture& p = asked.picture[k];
    if (row < p.first_row || row >= p.last_row) continue;
    double* line = totals.picture[k] +
                   ((row - p.first_row) / p.block_rows - totals.first_pixel[k]) * p.width();
    for (int64_t j = at_least(low, p.first_key); j < at_most(high, p.last_key); ++j) {
      double& pixel = line[(j - p.first_key) / p.block_keys];
      if (!p.largest) pixel += w[j];
      else if (w[j] > pixel || w[j] != w[j]) pixel = w[j];
    }
  }
}

static void plain_answer_row(const Job& job, const Ask& asked, const Place& at, const Row& row,
                             const Totals& totals, const PlainDesk& desk) {
  const Call& call = job.call;
  const int64_t low = first_seen(call, row, 0), high = seen_from(call, row, 0, call.S);
  const int64_t to = (at.b * call.H + row.h) * call.all_rows + call.first_row + row.t;
  const char* q = at.entry.q + row.h * call.q.head + row.t * call.q.row;
  double* w = desk.w;
  Best<double> best[MAX_ASKED];
  for (int k = 0; k < asked.strongest_count; ++k)
    best[k] = {desk.scores[k], desk.keys[k], asked.strongest[k].k};
  double top = -__builtin_inf(), sum = 0, sink = -__builtin_inf(), spread = 0;
  for (int64_t j = low; j < high; ++j) {
    w[j] = -__builtin_inf();
    if (!sees(call, row, j)) continue;
    w[j] = plain_score(call, row, reinterpret_cast<const double*>(q),
                       reinterpret_cast<const double*>(Place::key(call, at, j)), j);
    top = w[j] > top || w[j] != w[j] ? w[j] : top;
    for (int k = 0; k < asked.strongest_count; ++k)
      if (w[j] > best[k].bar()) best[k].offer(w[j], j);
  }
  if (at.entry.sink) {
    std::memcpy(&sink, at.entry.sink + row.h * call.sink.head, 8);
    if (!(sink <= top)) top = sink;
  }
  if (!(__builtin_fabs(top) < __builtin_inf())) top = 0;
  for (int64_t j = low; j < high; ++j) sum += __builtin_exp(w[j] - top);
  const double taken = at.entry.sink ? __builtin_exp(sink - top) : 0;
  sum += taken;
  const double log = __builtin_log(sum);
  for (int64_t j = low; j < high; ++j) {
    const double share = sum == 0 ? 0 : __builtin_exp(w[j] - top) / sum;
    if (share != 0) spread += share * (w[j] - top - log);
    w[j] = share;
  }
  if (taken > 0) spread += taken / sum * (sink - top - log);
  auto put = [](char* out, int64_t n, double x) { reinterpret_cast<double*>(out)[n] = x; };
  if (asked.lse) put(asked.lse, to, sum == 0 ? -__builtin_inf() : top + log);
  if (asked.entropy) put(asked.entropy, to, 0.0 - spread);
  for (int k = 0; k < asked.strongest_count; ++k)
    write_strongest(asked.strongest[k], to, best[k], call.S, sum,
                    [&](double s) { return __builtin_exp(s - top) / sum; });
  for (int k = 0; k < asked.share_count; ++k) {
    const Share& share = asked.share[k];
    double on = 0;
    for (int64_t j = at_least(low, share.first); j < at_most(high, share.last); ++j)
      if (share.marks[j]) on += w[j];
    put(share.out, to, on);
  }
  for (int k = 0; k < asked.entries_count; ++k) {
    const Entries& e = asked.entries[k];
    for (int64_t n = 0; n < e.count; ++n)
      put(e.out, to * e.count + n, low <= e.keys[n] && e.keys[n] < high ? w[e.keys[n]] : 0);
  }
  plain_totals(call, asked, totals, call.first_row + row.t, w, low, high);
}

static void plain_answer(const Job& job, const Ask& asked, int64_t piece, char* scratch) {
  const Call& call = job.call;
  const Place at(job, piece, 0);
  double* own = own_totals(job, asked, piece);
  if (own) std::memset(own, 0, asked.totals(job.cut.strip_rows, call.S) * 8);
  PlainDesk desk;
  plain_desk(call, asked, &desk, scratch);
  for (int64_t n = at.from; n < at.to; ++n) {
    Row row;
    set_row(call, at.entry, at.g * (call.H / call.G) + n / call.T, n % call.T, row);
    const Totals totals(job, asked, at.b * call.H + row.h, call.first_row + at.from % call.T,
                        job.cut.strip_rows, own);
    plain_answer_row(job, asked, at, row, totals, desk);
  }
}

}  // namespace regard::REGARD_LEVEL
