// A parallel loop on libtorch's own threads. at::parallel_for is a plain loop unless its caller is compiled
// with OpenMP, and clang's OpenMP would bring a second runtime; this enters the one that libtorch has.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::kernels {

// Calls f(part) for each part in [0, parts), each on a thread of its own where there are enough. f must not
// throw.
void run_parallel(int64_t parts, void (*f)(void* data, int64_t part), void* data);
// How many parts are worth having now: at::get_num_threads(), or 1 inside of a parallel loop.
int64_t parallel_parts();

// Calls f(first, last) for consecutive ranges of at least `grain` that cover [begin, end).
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  const int64_t size = end - begin;
  if (size <= 0) return;
  const int64_t wanted = (size + grain - 1) / grain;
  const int64_t parts = wanted > 1 ? std::min(wanted, parallel_parts()) : 1;
  if (parts == 1) return f(begin, end);
  struct Loop {
    int64_t begin, size, parts;
    const F& f;
  } loop{begin, size, parts, f};
  run_parallel(
      parts,
      [](void* data, int64_t part) {
        const Loop& loop = *static_cast<const Loop*>(data);
        loop.f(loop.begin + loop.size * part / loop.parts, loop.begin + loop.size * (part + 1) / loop.parts);
      },
      &loop);
}

}  // namespace weft::kernels
