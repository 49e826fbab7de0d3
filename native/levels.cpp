// Which dispatch levels this machine has, and which of them is used.
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "run.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace regard {

namespace portable { extern const Level level; }
#ifdef REGARD_HAS_avx2
namespace avx2 { extern const Level level; }
#endif
#ifdef REGARD_HAS_avx512
namespace avx512 { extern const Level level; }
#endif
#ifdef REGARD_HAS_avx512_bf16
namespace avx512_bf16 { extern const Level level; }
#endif
#ifdef REGARD_HAS_amx_bf16
namespace amx_bf16 { extern const Level level; }
#endif

namespace {

#if defined(__x86_64__)
// Linux gives the tiles' registers to a process that asks for them.
bool tiles_granted() {
  constexpr long ASK = 0x1023, TILES = 18;
  return syscall(SYS_arch_prctl, ASK, TILES) == 0;
}
#endif

#if defined(__x86_64__)
struct Machine {
  bool avx2, avx512, bf16, amx = false;
  Machine() {
    __builtin_cpu_init();
    avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
    avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
    if (!bf16) return;
    unsigned a = 7, b = 0, c = 0, d = 0;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    amx = (d >> 22 & 1) && (d >> 24 & 1) && tiles_granted();  // of bfloat16, and tiles at all
  }
};
#endif

struct Found {
  const Level* all[6] = {};
  Found() {
    int n = 0;
#if defined(__x86_64__)
    [[maybe_unused]] const Machine has;
#endif
#ifdef REGARD_HAS_amx_bf16
    if (has.amx) all[n++] = &amx_bf16::level;
#endif
#ifdef REGARD_HAS_avx512_bf16
    if (has.bf16) all[n++] = &avx512_bf16::level;
#endif
#ifdef REGARD_HAS_avx512
    if (has.avx512) all[n++] = &avx512::level;
#endif
#ifdef REGARD_HAS_avx2
    if (has.avx2) all[n++] = &avx2::level;
#endif
    all[n] = &portable::level;
  }
};

const Level* chosen = nullptr;

}  // namespace

const Level* const* levels() {
  static const Found found;
  return found.all;
}

void use_level(const char* name) {
  if (!name) name = std::getenv("REGARD_NATIVE_LEVEL");
  if (!name || !*name) {
    chosen = levels()[0];
    return;
  }
  std::string there;
  for (const Level* const* l = levels(); *l; ++l) {
    if (std::strcmp((*l)->name, name) == 0) {
      chosen = *l;
      return;
    }
    there += (there.empty() ? "" : ", ") + std::string((*l)->name);
  }
  throw std::invalid_argument("REGARD_NATIVE_LEVEL must name a level that this machine has (" +
                              there + "), but it is '" + name + "'");
}

const Level& level_in_use() {
  if (!chosen) use_level(nullptr);
  return *chosen;
}

}  // namespace regard
