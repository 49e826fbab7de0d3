// One call of the engine in plain numbers: pointers, strides and sizes, as Python hands them over.
//
// The letters are those of src/regard/_shapes.py: B batch entries (all leading axes together), H
// query heads, G key heads, T queries, S keys, D width of queries and keys, E width of values.
#pragma once
#include <cstdint>

namespace regard {

enum class Dtype : int { f32 = 0, bf16 = 1, f16 = 2, f64 = 3 };

__attribute__((always_inline)) inline int size_of(Dtype dtype) {
  return dtype == Dtype::f64 ? 8 : dtype == Dtype::f32 ? 4 : 2;
}

constexpr int MAX_LEAD = 8;
constexpr int MAX_BIAS = 4;

// An array that lies anywhere in memory: (…lead, head, row, column), steps counted in bytes.
struct Array {
  char* data = nullptr;
  int64_t lead[MAX_LEAD] = {};
  int64_t head = 0, row = 0, column = 0;
};

struct Bias {
  Array array;
  Dtype dtype = Dtype::f32;
};

struct Call {
  Dtype dtype = Dtype::f32;
  int leads = 0;
  int64_t lead[MAX_LEAD] = {};
  int64_t B = 1, H = 1, G = 1, T = 1, S = 1, D = 1, E = 1;
  Array q, k, v, out;
  Array lse;  // data is null if nobody wants it
  Dtype lse_dtype = Dtype::f32;  // float64 where the inputs are, and for a backward pass

  double scale = 1;
  double softcap = 0;      // 0: none
  Array sink;              // float32, float64 where the inputs are; null: none

  // Which keys each query sees: ranges of whole numbers (…, T, r); null: all of them.
  const int64_t* first = nullptr;
  const int64_t* last = nullptr;
  int64_t ranges = 0;      // r
  int64_t range_lead[MAX_LEAD] = {};  // steps in numbers, 0 where all entries share them
  // … and, if not null, only where these bytes are not 0.
  Array mask;

  int biases = 0;
  Bias bias[MAX_BIAS];

  uint64_t threshold = 0;  // dropout drops a weight whose 32-bit draw lies below; 0: none dropped
  uint32_t seed = 0;
  double kept = 1;         // what the weights that are kept are multiplied by
  int64_t all_rows = 0;    // T of the whole call and the first row of this part of it:
  int64_t first_row = 0;   // dropout draws by the row's number in the whole …
  int64_t drawn = 1;       // … of so many batch entries; entries that vmap added draw alike

  // The byte offset of batch entry b in an array with these steps.  Always inlined, as all that the
  // levels share must be: one level would else run what was compiled for another.
  __attribute__((always_inline)) int64_t at(const int64_t* steps, int64_t b) const {
    int64_t offset = 0;
    for (int i = leads - 1; i >= 0; --i) {
      offset += b % lead[i] * steps[i];
      b /= lead[i];
    }
    return offset;
  }
};

}  // namespace regard
