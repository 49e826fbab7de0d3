// Cuts a call into pieces of work and does them on the threads there are.
#include "run.h"

#include "threads.h"
#include "work.h"

namespace regard {
namespace {

constexpr int64_t MANY_HEADS = 8;       // key heads a thread from which each does whole heads,
constexpr int64_t LARGE = 8 << 20;      // bytes of packed heads above which each does,
constexpr int64_t SMALL = 1024 * 1024;  // and weights of a head below which nobody waits for others

struct Work {
  Job job;
  const Level* level;
  bool by_head;             // each piece is a whole key head, packed by the thread that has it
  char *scratch, *packed;   // a thread's own, one after another
  size_t scratch_bytes, packed_bytes;
  Packing packing;
  Shares shares;
  std::atomic<int64_t> done{0}, next_merge{0};
};

void whole_heads(Work& w, int thread) {
  Job job = w.job;
  const int64_t each = job.cut.segments * job.cut.strips * job.cut.parts;
  char* mine = w.packed + thread * w.packed_bytes;
  for (int64_t head; w.shares.take(thread, head);) {
    if (job.cut.packs) {
      lay_out(job.cut, job, 1, mine);
      job.keys -= head * job.cut.key_floats;
      job.values -= head * job.cut.value_floats;
      job.unclean -= head * job.cut.panels;
      w.level->pack(job, head, 0, job.cut.panels);
    }
    for (int64_t i = 0; i < each; ++i)
      w.level->compute(job, head * each + i, w.scratch + thread * w.scratch_bytes);
  }
}

void all_pieces(Work& w, int thread) {
  const Job& job = w.job;
  w.packing.all(job, *w.level);
  for (int64_t i; w.shares.take(thread, i); ++w.done)
    w.level->compute(job, i, w.scratch + thread * w.scratch_bytes);
  if (job.cut.parts == 1) return;
  await(w.done, job.pieces());
  for (int64_t i; (i = w.next_merge++) < job.strips();) w.level->merge(job, i);
}

void work_on(void* data, int thread) {
  Work& w = *static_cast<Work*>(data);
  w.by_head ? whole_heads(w, thread) : all_pieces(w, thread);
}

}  // namespace

void run(const Call& call) {
  if (call.B * call.H * call.T == 0) return;
  const Level& level = level_in_use();
  Work w{.job = {.call = call, .cut = level.cut(call)}, .level = &level};
  Job& job = w.job;
  const Cut& cut = job.cut;
  int threads = thread_count();
  if (threads > job.pieces()) threads = static_cast<int>(job.pieces());
  const size_t all = cut.packs ? packed_size(cut, job.heads()) : 0;
  w.by_head = cut.parts == 1 && (job.heads() >= MANY_HEADS * threads ||
                                 (job.heads() % threads == 0 &&
                                  (all > LARGE || job.rows() * call.S < SMALL)));
  w.scratch_bytes = rounded(level.scratch);
  w.packed_bytes = !cut.packs ? 0 : w.by_head ? packed_size(cut, 1) : all;
  const size_t draws = call.threshold ? rounded(cut.panels * 64 * 4) : 0;
  const size_t each = cut.strip_rows * (cut.out_step + 2) * 4;
  const size_t parts = cut.parts > 1 ? rounded(job.pieces() * each) : 0;

  thread_local Arena arena;
  char* at = arena.at_least(threads * w.scratch_bytes + w.packed_bytes * (w.by_head ? threads : 1) +
                            draws + parts);
  w.scratch = at;
  at += threads * w.scratch_bytes;
  if (draws) job.draws = reinterpret_cast<uint32_t*>(at);
  at += draws;
  if (parts) job.partial = reinterpret_cast<float*>(at);
  at += parts;
  w.packed = at;
  if (!w.by_head) lay_out(cut, job, job.heads(), at);
  w.shares.deal(w.by_head ? job.heads() : job.pieces(), threads);
  level.begin(job);
  on_threads(work_on, &w, threads);
  arena.let_go(KEPT);
}

}  // namespace regard
