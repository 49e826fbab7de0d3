// What both ways of going over packed heads need: where they lie, and packing them together.
#pragma once
#include <atomic>

#include "arena.h"
#include "job.h"

namespace regard {

// Pieces of work, dealt out to threads.  Each begins with a stretch of its own, as in torch's own
// kernels, so that it has in its cache what it read or wrote a call ago; who is done helps the others.
class Shares {
 public:
  static constexpr int MOST = 64;
  void deal(int64_t pieces, int threads) {
    count_ = threads < MOST ? threads : MOST;
    for (int i = 0; i < count_; ++i) {
      shares_[i].next = pieces * i / count_;
      shares_[i].end = pieces * (i + 1) / count_;
    }
  }
  bool take(int thread, int64_t& piece) {
    for (int i = 0; i < count_; ++i) {
      Share& share = shares_[(thread + i) % count_];
      if (share.next.load(std::memory_order_relaxed) < share.end &&
          (piece = share.next++) < share.end)
        return true;
    }
    return false;
  }

 private:
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;
  };
  Share shares_[MOST];
  int count_ = 0;
};

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
