// Tests that malloc keeps freed memory, unless the environment has settings for it. Each case has a process
// of its own, because the settings are those of a process.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "memory/heap.hpp"
#include "support/sanitized.hpp"

namespace weft::test {

namespace {

#ifdef __GLIBC__
constexpr size_t kBlock = 1 << 20, kBlocks = 64;

// Returns true if the heap still holds 64 MiB that were allocated in blocks and freed.
bool keeps_memory() {
  std::vector<void*> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::malloc(kBlock));
    std::memset(blocks.back(), 1, kBlock);
  }
  for (void* block : blocks) std::free(block);
  return mallinfo2().fordblks >= kBlock * kBlocks;
}

TEST(Heap, KeepsFreedMemory) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's allocator has no such settings";
  EXPECT_EXIT(
      {
        memory::keep_freed_memory();
        std::exit(keeps_memory() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Heap, LeavesTheSettingsOfTheUser) {
  EXPECT_EXIT(
      {
        setenv("MALLOC_TRIM_THRESHOLD_", "131072", 1);
        memory::keep_freed_memory();
        std::exit(keeps_memory() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}
#endif

}  // namespace

}  // namespace weft::test
