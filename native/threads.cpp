// The OpenMP runtime that torch has loaded is borrowed: two runtimes in one process spin on the same
// cores, and that makes small calls many times slower.  Without torch there is a small pool.
#include "threads.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace regard {
namespace {

std::atomic<int> wanted{0};
std::atomic<bool> forked{false};

// GNU's runtime, as far as it is needed here.
struct OpenMP {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  int (*max_threads)() = nullptr;
  int (*thread_num)() = nullptr;
  int (*in_parallel)() = nullptr;
};

int look_for_gomp(dl_phdr_info* info, size_t, void* found) {
  const char* name = info->dlpi_name;
  if (!name || !std::strstr(name, "libgomp")) return 0;
  void* library = dlopen(name, RTLD_NOLOAD | RTLD_NOW);
  if (!library) return 0;
  OpenMP omp;
  omp.parallel = reinterpret_cast<decltype(omp.parallel)>(dlsym(library, "GOMP_parallel"));
  omp.max_threads = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads"));
  omp.thread_num = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_thread_num"));
  omp.in_parallel = reinterpret_cast<int (*)()>(dlsym(library, "omp_in_parallel"));
  if (!omp.parallel || !omp.max_threads || !omp.thread_num || !omp.in_parallel) return 0;
  *static_cast<OpenMP*>(found) = omp;
  return 1;
}

// How many libraries were ever loaded: as long as that stays, there is no new one to look at.
int count_libraries(dl_phdr_info* info, size_t, void* found) {
  *static_cast<unsigned long long*>(found) = info->dlpi_adds;
  return 1;
}

const OpenMP* openmp() {
  static std::mutex looking;
  static std::atomic<const OpenMP*> known{nullptr};
  static unsigned long long looked_at = 0;
  if (const OpenMP* omp = known.load(std::memory_order_acquire)) return omp;
  unsigned long long loaded = 0;
  std::lock_guard lock(looking);
  dl_iterate_phdr(count_libraries, &loaded);
  if (loaded == looked_at) return nullptr;
  looked_at = loaded;
  OpenMP found;
  if (!dl_iterate_phdr(look_for_gomp, &found)) return nullptr;
  known.store(new OpenMP(found), std::memory_order_release);
  return known.load();
}

int processors() {
  cpu_set_t set;
  const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                            : static_cast<int>(std::thread::hardware_concurrency());
  if (const char* asked = std::getenv("OMP_NUM_THREADS"))
    if (const int m = std::atoi(asked); m > 0) return m;
  return n > 0 ? n : 1;
}

// Threads that sleep between calls.  One call has them at a time; another that comes meanwhile, from
// another Python thread, does its work alone.
class Pool {
 public:
  void run(void (*work)(void*, int), void* data, int most) {
    std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn.owns_lock()) return work(data, 0);
    {
      std::lock_guard lock(mutex_);
      while (static_cast<int>(threads_.size()) < most - 1) {
        const int number = static_cast<int>(threads_.size()) + 1;
        threads_.emplace_back([this, number] { wait_for_work(number); });
        threads_.back().detach();
      }
      work_ = work;
      data_ = data;
      most_ = most;
      busy_ = most - 1;
      ++round_;
    }
    wake_.notify_all();
    work(data, 0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void wait_for_work(int number) {
    unsigned long long seen = 0;
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      if (number >= most_) continue;
      auto* work = work_;
      void* data = data_;
      lock.unlock();
      work(data, number);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex turn_, mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  void (*work_)(void*, int) = nullptr;
  void* data_ = nullptr;
  int most_ = 0, busy_ = 0;
  unsigned long long round_ = 0;
};

// A forked child has none of its parent's threads, and perhaps their locks: it starts anew, and on
// threads of its own, since GNU's runtime does not survive a fork.
std::atomic<Pool*> pool{nullptr};

void after_fork() {
  forked = true;
  pool = nullptr;
}

Pool& own_pool() {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) pthread_atfork(nullptr, nullptr, after_fork);
  if (Pool* there = pool.load()) return *there;
  Pool *made = new Pool, *none = nullptr;
  if (pool.compare_exchange_strong(none, made)) return *made;
  delete made;
  return *none;
}

struct Share {
  void (*work)(void*, int);
  void* data;
  int (*number)();
};

void share(void* given) {
  auto* s = static_cast<Share*>(given);
  s->work(s->data, s->number());
}

const OpenMP* usable_openmp() {
  static const int told = pthread_atfork(nullptr, nullptr, after_fork);
  (void)told;
  return forked ? nullptr : openmp();
}

}  // namespace

int thread_count() {
  if (const int n = wanted) return n;
  const OpenMP* omp = usable_openmp();
  return omp ? omp->max_threads() : processors();
}

void set_thread_count(int n) { wanted = n; }

const char* thread_source() { return usable_openmp() ? "openmp" : "own"; }

void on_threads(void (*work)(void*, int), void* data, int most) {
  const OpenMP* omp = usable_openmp();
  if (most <= 1 || (omp && omp->in_parallel())) return work(data, 0);
  if (!omp) return own_pool().run(work, data, most);
  Share s{work, data, omp->thread_num};
  omp->parallel(share, &s, static_cast<unsigned>(most), 0);
}

}  // namespace regard
