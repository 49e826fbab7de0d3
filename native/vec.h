// A vector of floats, W of them, for the level that this file is compiled for.
//
// Everything here is static and nothing comes from the C++ library's templates: a template that two
// levels share by name would be linked once, perhaps with instructions that this machine lacks.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace regard::REGARD_LEVEL {

#define REGARD_INLINE static inline __attribute__((always_inline))

// 2^x on 0 … 1, to 8e-8: the minimax polynomial of degree 5.
constexpr float P0 = 0x1.fffffep-1f, P1 = 0x1.62e4f6p-1f, P2 = 0x1.ebd5a8p-3f;
constexpr float P3 = 0x1.c95446p-5f, P4 = 0x1.26900ep-7f, P5 = 0x1.ec320ap-10f;

#if defined(__AVX512F__)

constexpr int W = 16;
using F = __m512;
using I = __m512i;

REGARD_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
REGARD_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
REGARD_INLINE I load_int(const uint32_t* p) { return _mm512_loadu_si512(p); }
REGARD_INLINE F all(float x) { return _mm512_set1_ps(x); }
REGARD_INLINE I all_int(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
REGARD_INLINE F zero() { return _mm512_setzero_ps(); }
REGARD_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
REGARD_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
REGARD_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
REGARD_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
REGARD_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
REGARD_INLINE F larger(F a, F b) { return _mm512_max_ps(a, b); }
REGARD_INLINE F smaller(F a, F b) { return _mm512_min_ps(a, b); }
// A bit for each number of x that is greater than that of bar.
REGARD_INLINE unsigned above(F x, F bar) { return _mm512_cmp_ps_mask(x, bar, _CMP_GT_OQ); }
REGARD_INLINE float largest(F x) { return _mm512_reduce_max_ps(x); }
REGARD_INLINE float total(F x) { return _mm512_reduce_add_ps(x); }
// Fraction and floor take care of every case: 2^−∞ = 0, 2^∞ = ∞, NaN stays NaN.
REGARD_INLINE F whole(F x) { return _mm512_roundscale_ps(x, 9); }
REGARD_INLINE F fraction(F x) { return _mm512_reduce_ps(x, 9); }
REGARD_INLINE F times_power(F p, F x) { return _mm512_scalef_ps(p, x); }
REGARD_INLINE F exp2(F x) {
  F r = fraction(x);
  F p = fma(fma(fma(fma(fma(all(P5), r, all(P4)), r, all(P3)), r, all(P2)), r, all(P1)), r,
            all(P0));
  return times_power(p, x);
}
REGARD_INLINE I mixed(I x) {  // core/dropout.py, _mixed
  x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
  x = _mm512_mullo_epi32(x, all_int(0x21F0AAADu));
  x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 15));
  x = _mm512_mullo_epi32(x, all_int(0x735A2D97u));
  return _mm512_xor_si512(x, _mm512_srli_epi32(x, 15));
}
REGARD_INLINE I exclusive_or(I a, I b) { return _mm512_xor_si512(a, b); }
// x where the draw is at or above the threshold, else 0.
REGARD_INLINE F kept(F x, I draw, uint32_t threshold) {
  return _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(draw, all_int(threshold)), x);
}
// x where the byte is not 0, else −∞.
REGARD_INLINE F seen(F x, const uint8_t* bytes) {
  __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  return _mm512_mask_mov_ps(all(-__builtin_inff()), _mm_test_epi8_mask(b, b), x);
}
REGARD_INLINE F from_bf16(const uint16_t* p) {
  I wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
REGARD_INLINE F from_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
REGARD_INLINE void to_f16(uint16_t* p, F x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x, 0));
}
// The nearest bfloat16, ties to even; NaN stays NaN.
REGARD_INLINE __m256i near_bf16(F x) {
  I bits = _mm512_castps_si512(x);
  I odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), all_int(1));
  I up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, all_int(0x7FFF)));
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  up = _mm512_mask_or_epi32(up, nan, bits, all_int(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
}
REGARD_INLINE void to_bf16(uint16_t* p, F x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), near_bf16(x));
}

#elif defined(__AVX2__)

constexpr int W = 8;
using F = __m256;
using I = __m256i;

REGARD_INLINE F load(const float* p) { return _mm256_loadu_ps(p); }
REGARD_INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x); }
REGARD_INLINE I load_int(const uint32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
REGARD_INLINE F all(float x) { return _mm256_set1_ps(x); }
REGARD_INLINE I all_int(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
REGARD_INLINE F zero() { return _mm256_setzero_ps(); }
REGARD_INLINE F add(F a, F b) { return _mm256_add_ps(a, b); }
REGARD_INLINE F sub(F a, F b) { return _mm256_sub_ps(a, b); }
REGARD_INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
REGARD_INLINE F div(F a, F b) { return _mm256_div_ps(a, b); }
REGARD_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
REGARD_INLINE F larger(F a, F b) { return _mm256_max_ps(a, b); }
REGARD_INLINE F smaller(F a, F b) { return _mm256_min_ps(a, b); }
REGARD_INLINE unsigned above(F x, F bar) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(x, bar, _CMP_GT_OQ)));
}
REGARD_INLINE F whole(F x) { return _mm256_floor_ps(x); }
REGARD_INLINE F fraction(F x) { return sub(x, whole(x)); }
// p · 2^floor(x) for x above −127 and p from 1 up to 2; 0 for less.
REGARD_INLINE F times_power(F p, F x) {
  F n = whole(larger(all(-126), smaller(all(128), x)));
  I bits = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), all_int(127)), 23);
  F y = mul(p, _mm256_castsi256_ps(bits));
  return _mm256_andnot_ps(_mm256_cmp_ps(x, all(-126), _CMP_LT_OQ), y);
}
REGARD_INLINE F exp2(F x) {
  F r = fraction(larger(all(-126), smaller(all(128), x)));  // NaN is the second, and stays
  F p = fma(fma(fma(fma(fma(all(P5), r, all(P4)), r, all(P3)), r, all(P2)), r, all(P1)), r,
            all(P0));
  return times_power(p, x);
}
REGARD_INLINE I mixed(I x) {
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
  x = _mm256_mullo_epi32(x, all_int(0x21F0AAADu));
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
  x = _mm256_mullo_epi32(x, all_int(0x735A2D97u));
  return _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
}
REGARD_INLINE I exclusive_or(I a, I b) { return _mm256_xor_si256(a, b); }
REGARD_INLINE F kept(F x, I draw, uint32_t threshold) {
  I enough = _mm256_cmpeq_epi32(_mm256_max_epu32(draw, all_int(threshold)), draw);
  return _mm256_and_ps(x, _mm256_castsi256_ps(enough));
}
REGARD_INLINE F seen(F x, const uint8_t* bytes) {
  I wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
  I none = _mm256_cmpeq_epi32(wide, _mm256_setzero_si256());
  return _mm256_blendv_ps(x, all(-__builtin_inff()), _mm256_castsi256_ps(none));
}
REGARD_INLINE F from_bf16(const uint16_t* p) {
  I wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
REGARD_INLINE F from_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
REGARD_INLINE void to_f16(uint16_t* p, F x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, 0));
}
REGARD_INLINE void to_bf16(uint16_t* p, F x) {
  uint32_t bits[8];
  _mm256_storeu_ps(reinterpret_cast<float*>(bits), x);
  for (int i = 0; i < 8; ++i) {
    bool nan = (bits[i] & 0x7FFFFFFFu) > 0x7F800000u;
    uint32_t up = nan ? bits[i] | 0x400000u : bits[i] + 0x7FFFu + (bits[i] >> 16 & 1u);
    p[i] = static_cast<uint16_t>(up >> 16);
  }
}
REGARD_INLINE float largest(F x) {
  __m128 a = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}
REGARD_INLINE float total(F x) {
  __m128 a = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  a = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}

#else
#include "vec_portable.h"
#endif

// tanh by 2^x − 1, so that it is exact near 0 too.
REGARD_INLINE F tanh(F x) {
  F y = mul(larger(all(-40), smaller(all(40), x)), all(2 * 1.44269504f));
  F r = fraction(y), one = all(1);
  F p = fma(fma(fma(fma(fma(all(0x1.c721180p-13f), r, all(0x1.461956p-10f)), r,
                        all(0x1.3d28p-7f)), r, all(0x1.c685p-5f)), r, all(0x1.ebfd9ep-3f)), r,
            all(0x1.62e42ap-1f));
  F power = times_power(one, y);
  F less = fma(mul(p, r), power, sub(power, one));  // 2^y − 1
  return div(less, add(less, all(2)));
}

}  // namespace regard::REGARD_LEVEL
