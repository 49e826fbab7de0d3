// Threads for the pieces of a call, without a second pool beside torch's.
#pragma once

namespace regard {

// Calls work(data, thread) on several threads at once, this one among them, and returns when all
// are done.  How many come is not promised: `work` must take pieces until none are left.
void on_threads(void (*work)(void* data, int thread), void* data, int most);

// How many threads a call may use: as many as set_threads says, else as torch's runtime says, else
// as this process may run on.
int thread_count();
void set_thread_count(int n);  // 0: as the surroundings say

// Whose threads they are: "openmp" (torch's) or "own".
const char* thread_source();

}  // namespace regard
