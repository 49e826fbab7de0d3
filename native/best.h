// The k greatest of the numbers that come by, in a heap whose root is the least of them.
#pragma once
#include "ask.h"
#include "rows.h"

namespace regard::REGARD_LEVEL {

// Of equal numbers the one that came first counts as greater; they come by ascending key.
template <class Number>
struct Best {
  Number* numbers;
  int64_t* keys;
  int64_t k, n = 0;

  // What a number must lie above to get in.
  Number bar() const { return n < k ? -static_cast<Number>(INFINITE) : numbers[0]; }

  void offer(Number x, int64_t key) {
    int64_t i = 0;
    if (n < k) {
      for (i = n++; i > 0 && worse(x, key, (i - 1) / 2); i = (i - 1) / 2) copy((i - 1) / 2, i);
      put(i, x, key);
    } else {
      sink(n, x, key);
    }
  }

  // The greatest first.
  void sort() {
    for (int64_t last = n - 1; last > 0; --last) {
      const Number x = numbers[last];
      const int64_t key = keys[last];
      copy(0, last);
      sink(last, x, key);
    }
  }

 private:
  bool worse(Number x, int64_t key, int64_t than) const {
    return x < numbers[than] || (x == numbers[than] && key > keys[than]);
  }
  void copy(int64_t from, int64_t to) { put(to, numbers[from], keys[from]); }
  void put(int64_t i, Number x, int64_t key) {
    numbers[i] = x;
    keys[i] = key;
  }
  // Into the root of a heap of `size`, whose own root may be overwritten.
  void sink(int64_t size, Number x, int64_t key) {
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < size; i = child) {
      if (child + 1 < size && worse(numbers[child + 1], keys[child + 1], child)) ++child;
      if (worse(x, key, child)) break;
      copy(child, i);
    }
    put(i, x, key);
  }
};

// A row's answer to Strongest: `weight` makes weights of its best scores, whose sum was `total`.
template <class Number, class Weight>
static void write_strongest(const Strongest& to, int64_t row, Best<Number> best, int64_t S,
                            Number total, Weight weight) {
  Number* weights = reinterpret_cast<Number*>(to.weights) + row * to.k;
  int64_t* keys = to.keys + row * to.k;
  best.sort();
  int64_t n = 0;
  for (; n < best.n; ++n) {
    const Number w = weight(best.numbers[n]);
    // Rounding may turn two around that are all but equal.
    int64_t i = n;
    for (; i > 0 && w > weights[i - 1]; --i) {
      weights[i] = weights[i - 1];
      keys[i] = keys[i - 1];
    }
    weights[i] = w;
    keys[i] = best.keys[n];
  }
  for (int64_t i = 0; i < n; ++i)
    if (!(weights[i] > 0)) keys[i] = -1;
  // Of a row with NaN among its scores all weights are NaN.
  if (total != total)
    for (n = 0; n < at_most(to.k, S); ++n) {
      weights[n] = total;
      keys[n] = -1;
    }
  for (; n < to.k; ++n) {
    weights[n] = 0;
    keys[n] = -1;
  }
}

}  // namespace regard::REGARD_LEVEL
