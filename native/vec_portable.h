// Four floats by the compiler's own vectors, for every processor (NEON among them).  Part of vec.h.
constexpr int W = 4;
typedef float F __attribute__((vector_size(16)));
typedef uint32_t I __attribute__((vector_size(16)));
typedef int32_t Signed __attribute__((vector_size(16)));

REGARD_INLINE F load(const float* p) {
  F x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
REGARD_INLINE void store(float* p, F x) { std::memcpy(p, &x, sizeof x); }
REGARD_INLINE I load_int(const uint32_t* p) {
  I x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
REGARD_INLINE F all(float x) { return F{x, x, x, x}; }
REGARD_INLINE I all_int(uint32_t x) { return I{x, x, x, x}; }
REGARD_INLINE F zero() { return F{}; }
REGARD_INLINE F add(F a, F b) { return a + b; }
REGARD_INLINE F sub(F a, F b) { return a - b; }
REGARD_INLINE F mul(F a, F b) { return a * b; }
REGARD_INLINE F div(F a, F b) { return a / b; }
REGARD_INLINE F fma(F a, F b, F c) { return a * b + c; }
REGARD_INLINE F larger(F a, F b) { return a > b ? a : b; }  // b if either is NaN
REGARD_INLINE F smaller(F a, F b) { return a < b ? a : b; }
REGARD_INLINE unsigned above(F x, F bar) {
  const Signed found = x > bar;  // a comparison that holds is −1
  return (found[0] & 1) | (found[1] & 2) | (found[2] & 4) | (found[3] & 8);
}
REGARD_INLINE float largest(F x) {
  float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
  return a > b ? a : b;
}
REGARD_INLINE float total(F x) { return (x[0] + x[2]) + (x[1] + x[3]); }
REGARD_INLINE F limited(F x) { return larger(all(-126), smaller(all(128), x)); }
// Of numbers that fit 32 bits, as limited ones do; NaN gives some number.
REGARD_INLINE Signed floor_of(F x) {
  F safe = x == x ? x : zero();
  Signed n = __builtin_convertvector(safe, Signed);
  return n + (__builtin_convertvector(n, F) > safe);  // a comparison that holds is −1
}
REGARD_INLINE F fraction(F x) { return x - __builtin_convertvector(floor_of(x), F); }
REGARD_INLINE F times_power(F p, F x) {
  Signed bits = (floor_of(limited(x)) + 127) << 23;
  F power;
  std::memcpy(&power, &bits, sizeof power);
  return x < all(-126) ? zero() : p * power;
}
REGARD_INLINE F exp2(F x) {
  F r = fraction(limited(x));
  F p = ((((P5 * r + P4) * r + P3) * r + P2) * r + P1) * r + P0;
  return times_power(p, x);
}
REGARD_INLINE I mixed(I x) {
  x = (x ^ (x >> 16)) * 0x21F0AAADu;
  x = (x ^ (x >> 15)) * 0x735A2D97u;
  return x ^ (x >> 15);
}
REGARD_INLINE I exclusive_or(I a, I b) { return a ^ b; }
REGARD_INLINE F kept(F x, I draw, uint32_t threshold) {
  return draw >= all_int(threshold) ? x : zero();
}
REGARD_INLINE F seen(F x, const uint8_t* bytes) {
  for (int i = 0; i < W; ++i)
    if (!bytes[i]) x[i] = -__builtin_inff();
  return x;
}
REGARD_INLINE F from_bf16(const uint16_t* p) {
  I bits = I{p[0], p[1], p[2], p[3]} << 16;
  F x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
REGARD_INLINE float one_from_f16(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, rest = h & 0x7FFFu;
  uint32_t bits = rest >= 0x7C00u ? rest << 13 | 0x7F800000u : (rest << 13) + (112u << 23);
  float x;
  if (rest < 0x400u) {  // no leading one: a multiple of 2^−24
    x = static_cast<float>(rest) * 0x1p-24f;
    std::memcpy(&bits, &x, sizeof x);
  }
  bits |= sign;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
REGARD_INLINE F from_f16(const uint16_t* p) {
  return F{one_from_f16(p[0]), one_from_f16(p[1]), one_from_f16(p[2]), one_from_f16(p[3])};
}
REGARD_INLINE uint16_t one_to_f16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof x);
  uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
  if (rest > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u);
  if (rest >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 65520 and above
  if (rest < 0x38800000u) {  // below 2^−14: adding 0.5 leaves a multiple of 2^−24 in the low bits
    float y;
    std::memcpy(&y, &rest, sizeof y);
    y += 0.5f;
    std::memcpy(&rest, &y, sizeof y);
    return static_cast<uint16_t>(sign | (rest - 0x3F000000u));
  }
  return static_cast<uint16_t>(sign | (rest - (112u << 23) + 0xFFFu + (rest >> 13 & 1u)) >> 13);
}
REGARD_INLINE void to_f16(uint16_t* p, F x) {
  for (int i = 0; i < W; ++i) p[i] = one_to_f16(x[i]);
}
REGARD_INLINE void to_bf16(uint16_t* p, F x) {
  uint32_t bits[W];
  std::memcpy(bits, &x, sizeof x);
  for (int i = 0; i < W; ++i) {
    bool nan = (bits[i] & 0x7FFFFFFFu) > 0x7F800000u;
    uint32_t up = nan ? bits[i] | 0x400000u : bits[i] + 0x7FFFu + (bits[i] >> 16 & 1u);
    p[i] = static_cast<uint16_t>(up >> 16);
  }
}
