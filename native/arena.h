// What both ways through a call need: memory, and waiting for each other.
#pragma once
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace regard {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool KEEPS = false;  // so that what lies after the last byte is nobody's
constexpr size_t PAGE = 64;
#else
constexpr bool KEEPS = true;
constexpr size_t PAGE = 4096;
#endif

// Memory that a Python thread keeps from call to call, so that small calls need not ask for any.
class Arena {
 public:
  char* at_least(size_t bytes) {
    if (bytes > size_ || !KEEPS) {
      std::free(data_);
      size_ = (bytes + PAGE - 1) / PAGE * PAGE;
      data_ = static_cast<char*>(std::aligned_alloc(PAGE, size_));
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
