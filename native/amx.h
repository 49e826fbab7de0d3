// The two products by AMX, whose tiles multiply 16 rows of 32 bfloat16 by 16 columns at once.
#pragma once
#include "halves.h"

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
  // GCC's word for it reads 8 bytes of the 64 only, and the others might never be written.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

constexpr int LDT = 256 + 16;    // numbers from row to row of a tile of scores

// Sums of 32 rows (16 where `low`) by 32 columns (16 unless `two`) begin, grow and end.
REGARD_INLINE void zero_tiles(bool low) {
  _tile_zero(0);
  _tile_zero(1);
  if (low) return;
  _tile_zero(2);
  _tile_zero(3);
}

REGARD_INLINE void load_tiles(bool low, bool two, const float* from, int64_t step) {
  _tile_loadd(0, from, step * 4);
  if (two) _tile_loadd(1, from + 16, step * 4);
  if (low) return;
  _tile_loadd(2, from + 16 * step, step * 4);
  if (two) _tile_loadd(3, from + 16 * step + 16, step * 4);
}

// By 16 units of A and of B, whose rows lie `next` bytes apart; what is null is there already.
REGARD_INLINE void multiply_tiles(bool low, bool two, const float* a, int64_t step, const float* b,
                                  int64_t next) {
  if (a) _tile_loadd(4, a, step * 4);
  if (b) _tile_loadd(6, b, next);
  _tile_dpbf16ps(0, 4, 6);
  if (two) {
    if (b) _tile_loadd(7, b + 16, next);
    _tile_dpbf16ps(1, 4, 7);
  }
  if (low) return;
  if (a) _tile_loadd(5, a + 16 * step, step * 4);
  _tile_dpbf16ps(2, 5, 6);
  if (two) _tile_dpbf16ps(3, 5, 7);
}

// 32 numbers of A by 32 of B, in turns: of halves several products, each of which finds one of its
// sides loaded by the one before.
template <class Dot, int FIRST>
struct Turns {
  static constexpr int first = __is_same(Dot, Halves) ? FIRST : 0;
  static constexpr int end = __is_same(Dot, Halves) ? 4 : 1;
  static constexpr int all = end - first;
  int turn = first;
  bool begins() const { return turn == first; }

  // True after the last.
  bool multiply(bool low, bool two, const float* a, int64_t step, const float* b,
                int64_t b_step = NR) {
    if constexpr (__is_same(Dot, Halves)) {
      // low low, low high, high high, high low
      if (turn < 2) a += W;
      if (turn == 0 || turn == 3) b += W * b_step;
      multiply_tiles(low, two, turn == first || turn == 2 ? a : nullptr, step,
                     turn != 2 ? b : nullptr, b_step * 4);
    } else {
      multiply_tiles(low, two, a, step, b, b_step * 4);
    }
    if (++turn < end) return false;
    turn = first;
    return true;
  }
};

REGARD_INLINE void store_tiles(bool low, bool two, float* to, int64_t step) {
  _tile_stored(0, to, step * 4);
  if (two) _tile_stored(1, to + 16, step * 4);
  if (low) return;
  _tile_stored(2, to + 16 * step, step * 4);
  if (two) _tile_stored(3, to + 16 * step + 16, step * 4);
}

}  // namespace regard::REGARD_LEVEL
#endif
