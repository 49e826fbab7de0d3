// What both ways through a call need: memory, and waiting for each other.
#pragma once
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

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

constexpr size_t KEPT = 64 << 20;  // bytes of it that are kept at most

inline size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Waits until `count` has come to `all`: what is awaited is under way on another thread.
inline void await(const std::atomic<int64_t>& count, int64_t all) {
  for (int spins = 0; count.load(std::memory_order_acquire) < all; ++spins)
    if (spins > 1000) sched_yield();
}

}  // namespace regard
