// The backward pass of a dispatch level: compiled, as level.cpp, once for each set of instructions.
#include "plain_back.h"

namespace regard::REGARD_LEVEL {

// What computes the gradients of a call here: fn(Kind{}).
template <class Fn>
REGARD_INLINE auto by_kind([[maybe_unused]] const Call& call, Fn fn) {
#if defined(__AMX_BF16__)
  if (call.dtype == Dtype::bf16) return fn(GrowingTiles<Pairs>{});
  if (call.dtype == Dtype::f16) return fn(GrowingTiles<Halves>{});
#elif defined(__AVX512BF16__)
  if (call.dtype == Dtype::bf16) return fn(Growing<Pairs>{});
#endif
  return fn(Growing<Floats>{});
}

static BackCut back_cut(const Call& call, const Gradients& want) {
  BackCut c;
  const bool plain = call.dtype == Dtype::f64;
  const bool stacked = call.T < ROWS;
  c.segments = stacked ? 1 : call.H / call.G;
  c.segment_rows = stacked ? call.H / call.G * call.T : call.T;
  c.block_rows = ROWS;
  c.blocks = pieces_of(c.segment_rows, ROWS);
  const int64_t blocks = c.segments * c.blocks, heads = call.B * call.G;
  c.parts = at_least(at_most(at_most(MOST_PARTS / heads, blocks / 4), MOST_PARTS), 1);
  if (plain || want.whole) c.parts = 1;
  c.part_blocks = pieces_of(blocks, c.parts);
  c.parts = pieces_of(blocks, c.part_blocks);
  c.panels = pieces_of(call.S, NR);
  int64_t terms = 1;
  by_kind(call, [&](auto kind) {
    using Kind = decltype(kind);
    terms = Kind::Dot::terms;
    c.depth = pieces_of(pieces_of(call.D, terms), Kind::DEEP) * Kind::DEEP;
    c.value_depth = pieces_of(pieces_of(call.E, terms), Kind::DEEP) * Kind::DEEP;
    c.tall = pieces_of(call.D, Kind::TALL) * Kind::TALL;
    c.value_tall = pieces_of(call.E, Kind::TALL) * Kind::TALL;
  });
  if (plain) return c;
  c.keys = c.panels * c.depth * NR;
  c.values = c.panels * c.value_depth * NR;
  c.straight = pieces_of(call.D, NR) * c.panels * NR / terms * NR;
  c.sums = c.panels * (c.tall + c.value_tall) * NR;
  return c;
}

static void begin(const BackJob& job) {
  if (!job.draws) return;
  for (int64_t j = 0; j < job.cut.panels * NR; ++j)
    job.draws[j] = mixed_one(static_cast<uint32_t>(j + 1));
}

static void compute_back(const BackJob& job, int64_t piece, char* scratch, float* packed,
                         float* sums) {
  if (job.call.dtype == Dtype::f64) return plain_back(job, piece);
  [[maybe_unused]] const SmallIsZero quick;
  by_kind(job.call, [&](auto kind) {
    back_piece<decltype(kind)>(job, piece, *reinterpret_cast<BackScratch*>(scratch), packed, sums);
  });
}

static void merge_back(const BackJob& job, int64_t head, int64_t panel, int64_t panels) {
  const float* sums[MOST_PARTS];
  const int64_t* hulls[MOST_PARTS];
  const int64_t b = head / job.call.G, g = head % job.call.G;
  for (int64_t part = 0; part < job.cut.parts; ++part) {
    const int64_t piece = (job.cut.parts - 1 - part) * job.heads() + g * job.call.B + b;
    sums[part] = job.sums + piece * job.cut.sums;
    hulls[part] = job.hulls + piece * 2;
  }
  write_keys(job, b, g, panel, panels, sums, hulls);
}

extern const Backward backward;
const Backward backward = {sizeof(BackScratch), back_cut, begin, compute_back, merge_back};

}  // namespace regard::REGARD_LEVEL
