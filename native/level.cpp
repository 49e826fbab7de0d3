// A dispatch level: compiled once for each set of instructions, with REGARD_LEVEL as its name.
#include "asked_plain.h"

#define REGARD_TEXT(name) #name
#define REGARD_NAME(name) REGARD_TEXT(name)

namespace regard::REGARD_LEVEL {

// What computes a call here: fn(Kind{}).
template <class Fn>
REGARD_INLINE auto by_kind(const Call& call, Fn fn) {
  // A backward pass multiplies as the way for many queries does, and its weights then sum to 1.
  const bool few = call.H / call.G * call.T <= FEW && call.lse_dtype == Dtype::f32;
#if defined(__AMX_BF16__)
  if (call.dtype == Dtype::bf16) return few ? fn(DirectTiles{}) : fn(Tiles<Pairs>{});
  if (call.dtype == Dtype::f16 && !few) return fn(Tiles<Halves>{});
#elif defined(__AVX512BF16__)
  if (call.dtype == Dtype::bf16 && !few) return fn(Registers<Pairs>{});
#endif
  return few ? fn(Direct{}) : fn(Registers<Floats>{});
}

static Cut cut(const Call& call) {
  Cut c;
  const bool plain = call.dtype == Dtype::f64;
  int64_t rows = 0, group = 0;
  by_kind(call, [&](auto kind) {
    using Kind = decltype(kind);
    rows = Kind::STRIP;
    group = Kind::M;
    c.packs = Kind::PACKS && !plain;
    c.depth = pieces_of(pieces_of(call.D, Kind::Dot::terms), Kind::DEEP) * Kind::DEEP;
  });
  // Few queries a head: the heads that share a key head stand in one group.
  const bool stacked = call.T < group;
  c.segments = stacked ? 1 : call.H / call.G;
  c.segment_rows = stacked ? call.H / call.G * call.T : call.T;
  c.strips = at_least(pieces_of(c.segment_rows, rows), 1);
  c.strip_rows = pieces_of(pieces_of(c.segment_rows, c.strips), group > 16 ? 16 : 1);
  c.strip_rows *= group > 16 ? 16 : 1;
  c.strips = at_least(pieces_of(c.segment_rows, c.strip_rows), 1);
  c.panels = pieces_of(call.S, NR);
  c.value_panels = pieces_of(call.E, NR);
  c.key_floats = c.panels * c.depth * NR;
  by_kind(call, [&](auto kind) {
    c.value_floats = c.value_panels * c.panels * NR / decltype(kind)::Dot::terms * NR;
  });
  c.out_step = pieces_of(call.E, W) * W;
  const int64_t strips = call.B * call.G * c.segments * c.strips;
  const int64_t most = pieces_of(call.S, KEYS);
  c.parts = plain ? 1 : at_least(at_most(most, 16 / at_least(strips, 1)), 1);
  c.part_keys = pieces_of(pieces_of(call.S, c.parts), NR) * NR;
  c.parts = at_least(pieces_of(call.S, at_least(c.part_keys, 1)), 1);
  return c;
}

static void begin(const Job& job) {
  if (!job.draws) return;
  const int64_t n = job.cut.panels * NR;
  for (int64_t j = 0; j < n; ++j) job.draws[j] = mixed_one(static_cast<uint32_t>(j + 1));
}

static void pack(const Job& job, int64_t head, int64_t panel, int64_t panels) {
  const Call& call = job.call;
  const Cut& c = job.cut;
  const int64_t b = head / call.G, g = head % call.G;
  const char* keys = call.k.data + call.at(call.k.lead, b) + g * call.k.head;
  const char* values = call.v.data ? call.v.data + call.at(call.v.lead, b) + g * call.v.head : nullptr;
  by_kind(call, [&](auto kind) {
    using Dot = typename decltype(kind)::Dot;
    for (int64_t p = panel; p < panel + panels; ++p) {
      const bool of_keys = pack_keys<Dot>(call, c, keys, p * NR,
                                          job.keys + head * c.key_floats + p * c.depth * NR);
      const bool of_values =
          pack_values<Dot>(call, c, values, p * NR, job.values + head * c.value_floats);
      job.unclean[head * c.panels + p] =
          (of_keys ? UNCLEAN_KEYS : 0) | (of_values ? UNCLEAN_VALUES : 0);
    }
  });
}

static void compute_piece(const Job& job, int64_t piece, char* scratch) {
  if (job.call.dtype == Dtype::f64) return plain_compute(job, piece);
  [[maybe_unused]] const SmallIsZero quick;
  by_kind(job.call, [&](auto kind) { compute<decltype(kind)>(job, piece, scratch); });
}

// A piece of work of questions is some strips of a head's rows, so that few pieces add up totals
// apart from one another; or all rows of a key head's few queries.
static Cut cut_asked(const Call& call) {
  Cut c = cut(call);
  int64_t height = 1;
  by_kind(call, [&](auto kind) { height = strip_height<decltype(kind)>(call); });
  const bool stacked = c.segment_rows > call.T;
  const int64_t wanted = stacked ? 1 : pieces_of(MANY_PIECES, call.B * call.G * c.segments);
  c.strip_rows = pieces_of(pieces_of(c.segment_rows, wanted), height) * height;
  c.strips = stacked ? 1 : pieces_of(c.segment_rows, c.strip_rows);
  if (stacked) c.strip_rows = c.segment_rows;
  c.parts = 1;
  c.part_keys = at_least(call.S, 1);
  return c;
}

static size_t scratch_asked(const Call& call, const Ask& asked) {
  size_t size = plain_desk(call, asked, nullptr, nullptr);
  if (call.dtype != Dtype::f64)
    by_kind(call, [&](auto kind) { size = Desk().lay_out<decltype(kind)>(call, asked, nullptr); });
  return size;
}

static void answer_piece(const Job& job, const Ask& asked, int64_t piece, char* scratch) {
  if (job.call.dtype == Dtype::f64) return plain_answer(job, asked, piece, scratch);
  [[maybe_unused]] const SmallIsZero quick;
  by_kind(job.call, [&](auto kind) { answer<decltype(kind)>(job, asked, piece, scratch); });
}

extern const Backward backward;
extern const Level level;
const Level level = {REGARD_NAME(REGARD_LEVEL), sizeof(Scratch), cut,        begin,
                     pack,                      compute_piece,   merge_strip, cut_asked,
                     scratch_asked,             answer_piece,    merge_totals,
                     &backward};

}  // namespace regard::REGARD_LEVEL
