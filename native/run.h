// A call from beginning to end.
#pragma once
#include "gradients.h"
#include "job.h"

namespace regard {

void run(const Call& call);

// The gradients of a call; false if what was read is not all finite, and they are then not right.
bool run_backward(const Call& call, const Gradients& want);

// The levels that this machine has, the best first; the one in use; and which to use.
extern const Level* const* levels();
const Level& level_in_use();
void use_level(const char* name);  // nullptr: the best, or what REGARD_NATIVE_LEVEL says

}  // namespace regard
