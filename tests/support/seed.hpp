// The seed of a test with random cases.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace weft::test {

// Returns WEFT_TEST_SEED, or a new seed without it. Print it, so that a failure can be repeated.
inline uint32_t fresh_seed() {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  return given != nullptr ? static_cast<uint32_t>(std::stoul(given)) : std::random_device()();
}

// Prints its seed, and names it in every failure.
class RandomTest : public testing::Test {
 protected:
  RandomTest() { std::printf("WEFT_TEST_SEED=%u\n", seed_); }

  const uint32_t seed_ = fresh_seed();

 private:
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "WEFT_TEST_SEED=" + std::to_string(seed_)};
};

}  // namespace weft::test
