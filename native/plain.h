// float64, plainly: one row after another, all of it in doubles.
#pragma once
#include "doubles.h"
#include "strip.h"

namespace regard::REGARD_LEVEL {

static double plain_score(const Call& call, const Row& row, const double* q, const double* k,
                          int64_t j) {
  double s = dot(q, k, call.D) * call.scale;
  if (call.softcap != 0) s = call.softcap * __builtin_tanh(s / call.softcap);
  for (int i = 0; i < call.biases; ++i)
    s += wide_number_at(row.bias[i] + j * call.bias[i].array.column, call.bias[i].dtype);
  return s;
}

static void plain_row(const Job& job, const Place& at, const Row& row) {
  const Call& call = job.call;
  const Entry& entry = at.entry;
  const char* q = entry.q + row.h * call.q.head + row.t * call.q.row;
  double most = -__builtin_inf(), sum = 0, out[WIDEST] = {}, s[KEYS];
  bool open[KEYS];
  for (int64_t first = 0; first < call.S; first += KEYS) {
    const int64_t n = at_most(KEYS, call.S - first);
    double top = most;
    bool any = false;
    for (int64_t i = 0; i < n; ++i) {
      open[i] = sees(call, row, first + i);
      if (!open[i]) continue;
      any = true;
      s[i] = plain_score(call, row, reinterpret_cast<const double*>(q),
                         reinterpret_cast<const double*>(Place::key(call, at, first + i)),
                         first + i);
      top = s[i] > top || s[i] != s[i] ? s[i] : top;
    }
    if (!any) continue;
    const double shift = __builtin_fabs(top) < __builtin_inf() ? top : 0;
    const double shrink = __builtin_exp(most - shift);
    sum *= shrink;
    for (int64_t e = 0; e < call.E; ++e) out[e] *= shrink;
    for (int64_t i = 0; i < n; ++i) {
      if (!open[i]) continue;
      double w = __builtin_exp(s[i] - shift);
      sum += w;
      if (call.threshold &&
          mixed_one(row.draw ^ job.draws[first + i]) < static_cast<uint32_t>(call.threshold))
        w = 0;
      const double* v = reinterpret_cast<const double*>(Place::value(call, at, first + i));
      for (int64_t e = 0; e < call.E; ++e) out[e] += w * v[e];
    }
    most = top;
  }
  if (!(__builtin_fabs(most) < __builtin_inf())) most = 0;
  double factor = call.kept;
  if (entry.sink) {
    double sink;
    std::memcpy(&sink, entry.sink + row.h * call.sink.head, 8);
    double top = sum == 0 || sink > most ? sink : most;
    if (!(__builtin_fabs(top) < __builtin_inf())) top = 0;
    const double down = sum == 0 ? 0.0 : __builtin_exp(most - top);
    sum = (sum == 0 ? 0.0 : sum * down) + __builtin_exp(sink - top);
    factor *= down;
    most = top;
  }
  const bool empty = sum == 0;
  if (entry.lse) {
    char* to = entry.lse + row.h * call.lse.head + row.t * call.lse.row;
    const double lse = empty ? -__builtin_inf() : most + __builtin_log(sum);
    std::memcpy(to, &lse, 8);
  }
  if (!entry.out) return;
  char* to = entry.out + row.h * call.out.head + row.t * call.out.row;
  for (int64_t e = 0; e < call.E; ++e) out[e] = empty ? 0 : out[e] * (factor / sum);
  std::memcpy(to, out, call.E * 8);
}

static void plain_compute(const Job& job, int64_t piece) {
  const Call& call = job.call;
  const Place at(job, piece, 0);
  for (int64_t n = at.from; n < at.to; ++n) {
    Row row;
    set_row(call, at.entry, at.g * (call.H / call.G) + n / call.T, n % call.T, row);
    plain_row(job, at, row);
  }
}

}  // namespace regard::REGARD_LEVEL
