// The parallel loop of the CPU kernels, without libtorch's threads.
#include "parallel.hpp"

namespace weft::kernels {

int64_t parallel_parts() {
  return 1;
}
void run_parallel(int64_t parts, void (*f)(void* data, int64_t part), void* data) {
  for (int64_t part = 0; part < parts; ++part) f(data, part);
}

}  // namespace weft::kernels
