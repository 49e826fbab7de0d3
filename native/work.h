// What both ways of going over packed heads need: where they lie, and packing them together.
#pragma once
#include <atomic>

#include "arena.h"
#include "job.h"

namespace regard {

constexpr int64_t PANELS = 8;  // that are packed in one go

inline void lay_out(const Cut& cut, Job& job, int64_t heads, char* at) {
  job.keys = reinterpret_cast<float*>(at);
  at += rounded(heads * cut.key_floats * 4);
  job.values = reinterpret_cast<float*>(at);
  at += rounded(heads * cut.value_floats * 4);
  job.unclean = reinterpret_cast<uint8_t*>(at);
}

inline size_t packed_size(const Cut& cut, int64_t heads) {
  return rounded(heads * cut.key_floats * 4) + rounded(heads * cut.value_floats * 4) +
         rounded(heads * cut.panels);
}

// All heads packed by all threads together: how many pieces of it are taken, and how many done.
struct Packing {
  std::atomic<int64_t> next{0}, done{0};

  void all(const Job& job, const Level& level) {
    const int64_t chunks = (job.cut.panels + PANELS - 1) / PANELS;
    const int64_t packs = job.cut.packs ? job.heads() * chunks : 0;
    for (int64_t i; (i = next++) < packs; ++done) {
      const int64_t first = i % chunks * PANELS, left = job.cut.panels - first;
      level.pack(job, i / chunks, first, left < PANELS ? left : PANELS);
    }
    await(done, packs);
  }
};

}  // namespace regard
