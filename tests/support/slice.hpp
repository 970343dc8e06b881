// Draws a few cases of a long test matrix. An ordinary run tests a slice that depends on a seed, a full run
// tests every case.
//
//   INSTANTIATE_TEST_SUITE_P(Modes, Sequences, testing::ValuesIn(slice("Sequences", kAllModes, 4)));
//
// WEFT_TEST_SEED is the seed (packaging/check draws one and prints it). WEFT_TEST_FULL=1 runs every case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weft::test {

// Returns true if WEFT_TEST_FULL is 1.
bool runs_whole_matrices();

// Returns `count` of the numbers 0 ... size - 1, drawn by the seed and the name, in ascending order, and
// prints them. Returns all numbers in a full run or if `count` is at least `size`.
std::vector<size_t> draw_slice(std::string_view name, size_t size, size_t count);
// The same, and the numbers 0 and size - 1 whatever is drawn.
std::vector<size_t> draw_slice_with_ends(std::string_view name, size_t size, size_t count);

// Returns the drawn elements of `cases` in their order.
template <class Cases>
auto slice(std::string_view name, const Cases& cases, size_t count) {
  std::vector<typename std::decay_t<decltype(*std::begin(cases))>> drawn;
  const size_t size = static_cast<size_t>(std::distance(std::begin(cases), std::end(cases)));
  for (const size_t index : draw_slice(name, size, count))
    drawn.push_back(*std::next(std::begin(cases), static_cast<std::ptrdiff_t>(index)));
  return drawn;
}

}  // namespace weft::test
