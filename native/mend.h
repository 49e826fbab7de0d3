// What 0 has stood for in the products of halves (halves.h): numbers that are not finite.
#pragma once
#include "direct.h"

namespace regard::REGARD_LEVEL {

// Bits of Job::unclean: a panel holds what is not finite.
constexpr uint8_t UNCLEAN_VALUES = 1, UNCLEAN_KEYS = 2;

#if defined(__AMX_BF16__)

REGARD_INLINE bool any_unclean(const Job& job, const Place& at, int64_t first, int64_t last,
                               uint8_t which) {
  const uint8_t* panels = job.unclean + at.head * job.cut.panels;
  uint8_t found = 0;
  for (int64_t p = first / NR; p < pieces_of(last, NR); ++p) found |= panels[p];
  return found & which;
}

static float plain_product(const Call& call, const Place& at, const Row& row, int64_t j) {
  const char* q = at.entry.q + row.h * call.q.head + row.t * call.q.row;
  const char* k = Place::key(call, at, j);
  F sum = zero();
  for (int64_t d = 0; d < call.D; d += W)
    sum = fma(row_floats(q, call.dtype, d, call.D), row_floats(k, call.dtype, d, call.D), sum);
  return call.scale < 0 ? -total(sum) : total(sum);
}

// Scores of queries and keys that hold what is not finite.
template <class Dot>
static void mend_scores(const Job& job, const Place& at, const Row* rows, int count, int64_t first,
                        int64_t last, float* s, int64_t step) {
  if constexpr (!__is_same(Dot, Halves)) return;
  const Call& call = job.call;
  for (int i = 0; i < count; ++i)
    for (int64_t j = first; rows[i].mended && j < last; ++j)
      s[i * step + j - first] = plain_product(call, at, rows[i], j);
  if (!any_unclean(job, at, first, last, UNCLEAN_KEYS)) return;
  for (int64_t j = first; j < last; ++j) {
    if (finite(Place::key(call, at, j), call.dtype, call.D)) continue;
    for (int i = 0; i < count; ++i) s[i * step + j - first] = plain_product(call, at, rows[i], j);
  }
}

REGARD_INLINE float from_parts(const float* s, int64_t j) {
  uint32_t high, low;
  std::memcpy(&high, s + j / NR * NR + j % W, 4);
  std::memcpy(&low, s + j / NR * NR + W + j % W, 4);
  const int left = j % NR < W ? 16 : 0;
  high = high << left & 0xFFFF0000u;
  low = low << left & 0xFFFF0000u;
  float a, b;
  std::memcpy(&a, &high, 4);
  std::memcpy(&b, &low, 4);
  return a + b;
}

// What values that are not finite add to the rows that see them.
static void mend_mix(const Job& job, const Place& at, const Row& row, const float* s,
                     int64_t first, int64_t last, float* out) {
  const Call& call = job.call;
  for (int64_t j = first; j < last; ++j) {
    const char* v = Place::value(call, at, j);
    if (!sees(call, row, j) || finite(v, call.dtype, call.E)) continue;
    const F w = all(from_parts(s, j - first));
    for (int64_t e = 0; e < call.E; e += W) {
      const F x = row_floats(v, call.dtype, e, call.E), before = load(out + e);
      const __mmask16 odd = _mm512_cmp_ps_mask(_mm512_abs_ps(x), all(INFINITE), _CMP_NLT_UQ);
      store(out + e, _mm512_mask_mov_ps(before, odd, fma(w, x, before)));
    }
  }
}

#endif

}  // namespace regard::REGARD_LEVEL
