// What the backward pass of a call is asked for, and how its work is cut.
#pragma once
#include <cstddef>

#include "call.h"

namespace regard {

// Call::out and Call::lse, in float64, are what the forward pass has found.
struct Gradients {
  Array along;      // the cotangent of the output, in the call's dtype
  Array along_lse;  // that of lse: float32, float64 where the inputs are; null if there is none
  Dtype dtype = Dtype::f32;  // of q, k and v
  Array q, k, v;             // null: not wanted
  Array bias[MAX_BIAS];      // of that dtype too; its steps may be 0 or even negative; null: not wanted
  bool put[MAX_BIAS] = {};   // each of its numbers is met once; else they are added up
  bool whole = false;        // such sums go over all rows: only one thread may have them
  int64_t together = 1;      // key heads, one after another, that one thread must have
};

constexpr int MOST_PARTS = 16;

// As Cut, from the shapes alone.  A piece of work is a part of a key head's stacked query rows, in
// blocks of some rows, by all keys that these see.
struct BackCut {
  int64_t segments = 1, segment_rows = 0;  // of the stacked rows: heads, or all of them together
  int64_t blocks = 1, block_rows = 0;      // of a segment
  int64_t parts = 1, part_blocks = 1;      // pieces of all blocks, whose sums are added up at last
  int64_t panels = 0;                      // of keys
  int64_t depth = 0, value_depth = 0;      // units of a key, of a value
  int64_t tall = 0, value_tall = 0;        // rows of a panel of the gradients of keys, of values
  int64_t keys = 0, values = 0, straight = 0, sums = 0;  // floats that one key head takes
};

struct BackJob {
  Call call;
  Gradients want;
  BackCut cut;
  uint32_t* draws = nullptr;
  float* sums = nullptr;    // gradients of keys and values of each piece, where these are parts
  int64_t* hulls = nullptr; // the keys that a piece has sums of: first, last
  uint8_t* unclean = nullptr;  // 1 if anything that was read is NaN or infinite

  int64_t heads() const { return call.B * call.G; }
  int64_t pieces() const { return heads() * cut.parts; }
};

struct Backward {
  size_t scratch;  // bytes that each thread needs, beside one key head laid out and its sums
  BackCut (*cut)(const Call&, const Gradients&);
  void (*begin)(const BackJob&);
  void (*compute)(const BackJob&, int64_t piece, char* scratch, float* packed, float* sums);
  void (*merge)(const BackJob&, int64_t head, int64_t panel, int64_t panels);
};

}  // namespace regard
