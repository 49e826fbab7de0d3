// What every way of running a call needs: memory that is kept, packed heads, waiting.
#pragma once
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "job.h"

namespace regard {

// Memory that a Python thread keeps from call to call, so that small calls need not ask for any.
class Arena {
 public:
  char* at_least(size_t bytes) {
    if (bytes > size_) {
      std::free(data_);
      size_ = (bytes + 4095) / 4096 * 4096;
      data_ = static_cast<char*>(std::aligned_alloc(4096, size_));
      if (!data_) {
        size_ = 0;
        throw std::bad_alloc();
      }
    }
    return data_;
  }
  void let_go(size_t above) {
    if (size_ <= above) return;
    std::free(data_);
    data_ = nullptr;
    size_ = 0;
  }
  ~Arena() { std::free(data_); }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

constexpr size_t KEPT = 64 << 20;
constexpr int64_t PANELS = 8;  // that are packed in one go

inline size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

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

// Waits until `count` has come to `all`: what is awaited is under way on another thread.
inline void await(const std::atomic<int64_t>& count, int64_t all) {
  for (int spins = 0; count.load(std::memory_order_acquire) < all; ++spins)
    if (spins > 1000) sched_yield();
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
