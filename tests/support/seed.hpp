// The seed of a test with random cases.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace weft::test {

// Returns WEFT_TEST_SEED, or a new seed without it. Print it, so that a failure can be repeated.
inline uint32_t fresh_seed() {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  return given != nullptr ? static_cast<uint32_t>(std::stoul(given)) : std::random_device()();
}

}  // namespace weft::test
