// float64's gradients, plainly: one row after another, all of it in doubles.
#pragma once
#include "blocks.h"
#include "doubles.h"

namespace regard::REGARD_LEVEL {

struct PlainRow {
  const BackJob& job;
  const Piece& at;
  const Row& row;
  const double *q, *along;
  double lse, delta;
  double* dq;  // null, as those that follow: not wanted
  char *dk, *dv;
  char* bias[MAX_BIAS];

  void pair(int64_t j) const {
    const Call& call = job.call;
    const double* k = (const double*)(at.entry.k + at.g * call.k.head + j * call.k.row);
    const double* v = (const double*)(at.entry.v + at.g * call.v.head + j * call.v.row);
    double s = dot(q, k, call.D) * call.scale, slope = call.scale;
    if (call.softcap != 0) {
      const double t = __builtin_tanh(s / call.softcap);
      s = call.softcap * t;
      slope *= (1 - t) * (1 + t);
    }
    for (int i = 0; i < call.biases; ++i)
      s += wide_number_at(row.bias[i] + j * call.bias[i].array.column, call.bias[i].dtype);
    const double p = __builtin_exp(s - lse);
    double kept = 1;
    if (call.threshold)
      kept = mixed_one(row.draw ^ job.draws[j]) < static_cast<uint32_t>(call.threshold) ? 0
                                                                                        : call.kept;
    const double ds = p * (kept * dot(along, v, call.E) - delta);
    for (int i = 0; i < call.biases; ++i)
      if (bias[i]) *reinterpret_cast<double*>(bias[i] + j * job.want.bias[i].column) += ds;
    if (dv) {
      double* to = reinterpret_cast<double*>(dv + j * job.want.v.row);
      for (int64_t e = 0; e < call.E; ++e) to[e] += p * kept * along[e];
    }
    const double raw = ds * slope;
    if (dk) {
      double* to = reinterpret_cast<double*>(dk + j * job.want.k.row);
      for (int64_t d = 0; d < call.D; ++d) to[d] += raw * q[d];
    }
    for (int64_t d = 0; dq && d < call.D; ++d) dq[d] += raw * k[d];
  }
};

REGARD_INLINE double double_at(const char* p) {
  double x;
  std::memcpy(&x, p, 8);
  return x;
}

REGARD_INLINE bool all_finite(const double* x, int64_t n) {
  double probe = 0;
  for (int64_t i = 0; i < n; ++i) probe += x[i] * 0;
  return probe == 0;
}

// One key head with all its rows.  The gradients of keys and values begin as 0.
static void plain_back(const BackJob& job, int64_t number) {
  const Call& call = job.call;
  const Gradients& want = job.want;
  const Piece at(job, number);
  const int64_t R = call.H / call.G;
  auto begin = [&](const Array& a, int64_t head) {
    return a.data ? a.data + call.at(a.lead, at.b) + head * a.head : nullptr;
  };
  bool clean = true;
  for (int64_t j = at.low; j < at.high; ++j) {
    clean &= all_finite((const double*)(at.entry.k + at.g * call.k.head + j * call.k.row), call.D);
    clean &= all_finite((const double*)(at.entry.v + at.g * call.v.head + j * call.v.row), call.E);
  }
  for (int64_t h = at.g * R; h < (at.g + 1) * R; ++h)
    for (int64_t t = 0; t < call.T; ++t) {
      Row row;
      set_row(call, at.entry, h, t, row);
      const double* q = (const double*)(at.entry.q + h * call.q.head + t * call.q.row);
      const double* along = (const double*)(at.along + h * want.along.head + t * want.along.row);
      const double* out = (const double*)(at.entry.out + h * call.out.head + t * call.out.row);
      const double lse = double_at(at.entry.lse + h * call.lse.head + t * call.lse.row);
      double delta = dot(along, out, call.E);
      if (at.along_lse)
        delta -= double_at(at.along_lse + h * want.along_lse.head + t * want.along_lse.row);
      char* dq = begin(want.q, h);
      PlainRow one{job, at, row, q, along, lse, delta,
                   dq ? reinterpret_cast<double*>(dq + t * want.q.row) : nullptr,
                   begin(want.k, at.g), begin(want.v, at.g), {}};
      for (int i = 0; i < call.biases; ++i)
        if (want.bias[i].data) one.bias[i] = begin(want.bias[i], h) + t * want.bias[i].row;
      if (dq) std::memset(one.dq, 0, call.D * 8);
      const bool empty = lse == -__builtin_inf();
      clean &= empty || __builtin_fabs(lse) < __builtin_inf();
      clean &= __builtin_fabs(delta) < __builtin_inf() && all_finite(q, call.D);
      for (int64_t j = at.low; j < at.high && !empty; ++j)
        if (sees(call, row, j)) one.pair(j);
    }
  if (!clean) __atomic_store_n(job.unclean, 1, __ATOMIC_RELAXED);
}

}  // namespace regard::REGARD_LEVEL
