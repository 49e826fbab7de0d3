// One call, cut into pieces of work, and what a dispatch level does with them.
#pragma once
#include <cstddef>

#include "call.h"

namespace regard {

// How a call is cut.  It follows from the shapes alone, so that neither the number of threads nor
// which of them takes a piece can change a bit of the result.
struct Cut {
  int64_t segments = 1;      // of a key head's stacked query rows: its heads, or all of them together
  int64_t segment_rows = 0;  // rows of one
  int64_t strips = 1;        // pieces of a segment
  int64_t strip_rows = 0;    // rows of one, but perhaps fewer of the last
  int64_t parts = 1;         // pieces of the keys, merged afterwards
  int64_t part_keys = 0;
  bool packs = true;         // whether keys and values are laid out anew before they are read

  int64_t panels = 0;        // of keys
  int64_t depth = 0;         // units of a query or key
  int64_t value_panels = 0;  // of columns of the values
  int64_t key_floats = 0, value_floats = 0;  // of 4 bytes: what one key head takes, laid out
  int64_t out_step = 0;      // numbers from row to row of what a strip adds up
};

struct Job {
  Call call;
  Cut cut;
  // All key heads (batch entry × key head) side by side, or, if each piece of work does a whole key
  // head, those that a thread has in hand: then null, and Scratch has them.
  float* keys = nullptr;
  float* values = nullptr;
  uint8_t* unclean = nullptr;  // a panel's keys or values hold NaN or infinity
  uint32_t* draws = nullptr;   // dropout's hash of each key
  float* partial = nullptr;    // outputs, maxima and sums of the parts

  __attribute__((always_inline)) int64_t heads() const { return call.B * call.G; }
  __attribute__((always_inline)) int64_t rows() const { return call.H / call.G * call.T; }
  __attribute__((always_inline)) int64_t strips() const { return heads() * cut.segments * cut.strips; }
  __attribute__((always_inline)) int64_t pieces() const { return strips() * cut.parts; }
};

struct Ask;       // ask.h
struct Backward;  // gradients.h

struct Level {
  const char* name;
  size_t scratch;  // bytes that each thread needs
  Cut (*cut)(const Call&);
  void (*begin)(const Job&);                          // what goes before all else, on one thread
  void (*pack)(const Job&, int64_t head, int64_t panel, int64_t panels);
  void (*compute)(const Job&, int64_t piece, char* scratch);
  void (*merge)(const Job&, int64_t strip);
  // The same for what is asked of the weights (ask.h): its totals are merged head by head.
  Cut (*cut_asked)(const Call&);
  size_t (*scratch_asked)(const Call&, const Ask&);
  void (*answer)(const Job&, const Ask&, int64_t piece, char* scratch);
  void (*merge_totals)(const Job&, const Ask&, int64_t head);
  const Backward* backward;
};

}  // namespace regard
