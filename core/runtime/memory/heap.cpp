#include "memory/heap.hpp"

#include <malloc.h>

#include "base/environment.hpp"

namespace weft::memory {

#ifdef __GLIBC__
namespace {

constexpr int kKept = 512 << 20;
// Larger blocks are mapped one by one, as by default; glibc takes no more.
constexpr int kMapped = 32 << 20;

bool is_set_by_user() {
  const auto tunables = environment("GLIBC_TUNABLES");
  return environment("MALLOC_TRIM_THRESHOLD_") || environment("MALLOC_MMAP_THRESHOLD_") ||
         (tunables && tunables->find("glibc.malloc") != tunables->npos);
}

}  // namespace

void keep_freed_memory() {
  if (is_set_by_user()) return;
  mallopt(M_MMAP_THRESHOLD, kMapped);
  mallopt(M_TRIM_THRESHOLD, kKept);
}
#else
void keep_freed_memory() {}
#endif

}  // namespace weft::memory
