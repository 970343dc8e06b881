#include "parallel.hpp"

#include <ATen/Parallel.h>

// GCC's OpenMP runtime, which libtorch_cpu.so brings. Weak: a libtorch with other threads has none, and loops
// are serial.
extern "C" {
void GOMP_parallel(void (*f)(void*), void* data, unsigned num_threads, unsigned flags) __attribute__((weak));
int omp_get_thread_num() __attribute__((weak));
int omp_get_num_threads() __attribute__((weak));
}

namespace weft::kernels {

namespace {

struct Team {
  int64_t parts;
  void (*f)(void*, int64_t);
  void* data;
};

void run_member(void* argument) {
  const Team& team = *static_cast<const Team*>(argument);
  // The runtime may give fewer threads than asked for.
  for (int64_t part = omp_get_thread_num(); part < team.parts; part += omp_get_num_threads()) {
    const at::internal::ThreadIdGuard thread(static_cast<int>(part));
    const c10::ParallelGuard inside(true);
    team.f(team.data, part);
  }
}

}  // namespace

int64_t parallel_parts() {
  if (GOMP_parallel == nullptr || at::in_parallel_region()) return 1;
  return at::get_num_threads();
}

void run_parallel(int64_t parts, void (*f)(void*, int64_t), void* data) {
  Team team{parts, f, data};
  GOMP_parallel(run_member, &team, static_cast<unsigned>(parts), 0);
}

}  // namespace weft::kernels
