// A few words of arithmetic in doubles.
#pragma once
#include "rows.h"

namespace regard::REGARD_LEVEL {

typedef double Doubles __attribute__((vector_size(64)));

REGARD_INLINE double dot(const double* a, const double* b, int64_t n) {
  Doubles sum = {}, x, y;
  int64_t d = 0;
  for (; d + 8 <= n; d += 8) {
    std::memcpy(&x, a + d, 64);
    std::memcpy(&y, b + d, 64);
    sum += x * y;
  }
  double s = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
  for (; d < n; ++d) s += a[d] * b[d];
  return s;
}

REGARD_INLINE double wide_number_at(const char* p, Dtype dtype) {
  double x;
  std::memcpy(&x, p, dtype == Dtype::f64 ? 8 : 2);
  return dtype == Dtype::f64 ? x : number_at(p, dtype);
}

}  // namespace regard::REGARD_LEVEL
