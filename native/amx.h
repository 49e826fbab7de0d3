// The two products by AMX, whose tiles multiply 16 rows of 32 bfloat16 by 16 columns at once.
#pragma once
#include "pack.h"

#if defined(__AMX_BF16__)
namespace regard::REGARD_LEVEL {

constexpr int64_t PANEL = NR * 4;  // bytes from row to row of a panel

// Tiles 0 … 3 hold sums, 4 and 5 rows of A, 6 and 7 columns of B; all of 16 rows × 64 bytes.
static void configure_tiles() {
  struct alignas(64) {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  _tile_loadconfig(&config);
}

// scores = A · B over 32 rows (16 where `low`) and a panel of 32 keys.
template <bool Low>
REGARD_INLINE void tile_products(const float* a, const float* b, int64_t depth, float* scores) {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (!Low) _tile_zero(2);
  if constexpr (!Low) _tile_zero(3);
  for (int64_t d = 0; d < depth; d += 16) {
    _tile_loadd(4, a + d, LDQ * 4);
    _tile_loadd(6, b + d * NR, PANEL);
    _tile_loadd(7, b + d * NR + 16, PANEL);
    if constexpr (!Low) _tile_loadd(5, a + 16 * LDQ + d, LDQ * 4);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (!Low) _tile_dpbf16ps(2, 5, 6);
    if constexpr (!Low) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, scores, LDS * 4);
  _tile_stored(1, scores + 16, LDS * 4);
  if constexpr (!Low) _tile_stored(2, scores + 16 * LDS, LDS * 4);
  if constexpr (!Low) _tile_stored(3, scores + 16 * LDS + 16, LDS * 4);
}

// out += A · B over 32 rows (16 where `low`) and N times 16 columns.
template <bool Low, int N>
REGARD_INLINE void tile_mix(const float* a, const float* b, int64_t depth, float* out,
                            int64_t out_step) {
  const int64_t step = out_step * 4;
  _tile_loadd(0, out, step);
  if constexpr (N > 1) _tile_loadd(1, out + 16, step);
  if constexpr (!Low) _tile_loadd(2, out + 16 * out_step, step);
  if constexpr (!Low && N > 1) _tile_loadd(3, out + 16 * out_step + 16, step);
  for (int64_t d = 0; d < depth; d += 16) {
    _tile_loadd(4, a + d, LDS * 4);
    _tile_loadd(6, b + d * NR, PANEL);
    if constexpr (N > 1) _tile_loadd(7, b + d * NR + 16, PANEL);
    if constexpr (!Low) _tile_loadd(5, a + 16 * LDS + d, LDS * 4);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (N > 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (!Low) _tile_dpbf16ps(2, 5, 6);
    if constexpr (!Low && N > 1) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, out, step);
  if constexpr (N > 1) _tile_stored(1, out + 16, step);
  if constexpr (!Low) _tile_stored(2, out + 16 * out_step, step);
  if constexpr (!Low && N > 1) _tile_stored(3, out + 16 * out_step + 16, step);
}

}  // namespace regard::REGARD_LEVEL
#endif
