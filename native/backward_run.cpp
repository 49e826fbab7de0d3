// The backward pass of a call, on the threads there are.
#include <atomic>

#include "arena.h"
#include "run.h"
#include "threads.h"

namespace regard {
namespace {

constexpr int64_t PANELS = 16;  // whose sums are added up in one go

struct Work {
  BackJob job;
  const Backward* level;
  char *scratch, *packed, *sums;  // a thread's own, one after another
  size_t scratch_bytes, packed_bytes, sums_bytes;
  std::atomic<int64_t> next{0}, done{0}, next_merge{0};
};

void work_on(void* data, int thread) {
  Work& w = *static_cast<Work*>(data);
  const BackJob& job = w.job;
  const int64_t together = job.want.together, all = job.pieces();
  char* scratch = w.scratch + thread * w.scratch_bytes;
  float* packed = reinterpret_cast<float*>(w.packed + thread * w.packed_bytes);
  float* mine = reinterpret_cast<float*>(w.sums + thread * w.sums_bytes);
  for (int64_t i; (i = w.next++ * together) < all; w.done += together)
    for (int64_t piece = i; piece < i + together; ++piece)
      w.level->compute(job, piece, scratch, packed,
                       job.sums ? job.sums + piece * job.cut.sums : mine);
  if (!job.sums) return;
  await(w.done, all);
  const int64_t chunks = (job.cut.panels + PANELS - 1) / PANELS;
  for (int64_t i; (i = w.next_merge++) < job.heads() * chunks;) {
    const int64_t first = i % chunks * PANELS, left = job.cut.panels - first;
    w.level->merge(job, i / chunks, first, left < PANELS ? left : PANELS);
  }
}

}  // namespace

bool run_backward(const Call& call, const Gradients& want) {
  const Backward& level = *level_in_use().backward;
  uint8_t unclean = 0;
  Work w{.job = {.call = call, .want = want, .cut = level.cut(call, want), .unclean = &unclean},
         .level = &level};
  BackJob& job = w.job;
  const BackCut& cut = job.cut;
  int threads = thread_count();
  const int64_t shares = job.pieces() / want.together;
  if (threads > shares) threads = static_cast<int>(shares);
  const bool parts = cut.parts > 1;
  w.scratch_bytes = rounded(level.scratch);
  w.packed_bytes = rounded((cut.keys + cut.values + cut.straight) * 4);
  w.sums_bytes = parts ? 0 : rounded(cut.sums * 4);
  const size_t draws = call.threshold ? rounded(cut.panels * 64 * 4) : 0;
  const size_t hulls = parts ? rounded(job.pieces() * 2 * 8) : 0;
  const size_t shared = parts ? rounded(job.pieces() * cut.sums * 4) : 0;

  thread_local Arena arena;
  char* at = arena.at_least(threads * (w.scratch_bytes + w.packed_bytes + w.sums_bytes) + draws +
                            hulls + shared);
  w.scratch = at;
  w.packed = w.scratch + threads * w.scratch_bytes;
  w.sums = w.packed + threads * w.packed_bytes;
  at = w.sums + threads * w.sums_bytes;
  if (draws) job.draws = reinterpret_cast<uint32_t*>(at);
  at += draws;
  if (parts) job.hulls = reinterpret_cast<int64_t*>(at);
  at += hulls;
  if (parts) job.sums = reinterpret_cast<float*>(at);
  level.begin(job);
  on_threads(work_on, &w, threads);
  arena.let_go(KEPT);
  return !unclean;
}

}  // namespace regard
