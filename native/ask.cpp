// Questions from beginning to end: cut into pieces of work, done on the threads there are, merged.
#include "ask.h"

#include "run.h"
#include "threads.h"
#include "work.h"

namespace regard {
namespace {

struct Asked {
  Job job;
  const Ask* ask;
  const Level* level;
  char* scratch;  // a thread's own, one after another
  size_t scratch_bytes;
  Packing packing;
  std::atomic<int64_t> next{0}, done{0}, next_merge{0};
};

void answer(void* data, int thread) {
  Asked& w = *static_cast<Asked*>(data);
  const Job& job = w.job;
  w.packing.all(job, *w.level);
  for (int64_t i; (i = w.next++) < job.pieces(); ++w.done)
    w.level->answer(job, *w.ask, i, w.scratch + thread * w.scratch_bytes);
  if (job.cut.strips == 1) return;
  await(w.done, job.pieces());
  for (int64_t i; (i = w.next_merge++) < job.heads() * job.cut.segments;)
    w.level->merge_totals(job, *w.ask, i);
}

}  // namespace

void ask(const Call& call, const Ask& asked) {
  if (call.B * call.H * call.T == 0) return;
  const Level& level = level_in_use();
  Asked w{.job = {.call = call, .cut = level.cut_asked(call)}, .ask = &asked, .level = &level};
  Job& job = w.job;
  const Cut& cut = job.cut;
  int threads = thread_count();
  if (threads > job.pieces()) threads = static_cast<int>(job.pieces());
  w.scratch_bytes = rounded(level.scratch_asked(call, asked));
  const size_t packed = cut.packs ? packed_size(cut, job.heads()) : 0;
  const size_t totals =
      cut.strips > 1 ? rounded(job.pieces() * asked.totals(cut.strip_rows, call.S) * 8) : 0;
  thread_local Arena arena;
  w.scratch = arena.at_least(threads * w.scratch_bytes + totals + packed);
  char* at = w.scratch + threads * w.scratch_bytes;
  job.partial = reinterpret_cast<float*>(at);
  lay_out(cut, job, job.heads(), at + totals);
  on_threads(answer, &w, threads);
  arena.let_go(KEPT);
}

}  // namespace regard
