// Long matrices of cases: an ordinary run tests a slice of each that is drawn from a seed, a full run all of
// it.
//
//   INSTANTIATE_TEST_SUITE_P(Modes, Sequences, testing::ValuesIn(slice("Sequences", kAllModes, 4)));
//
// WEFT_TEST_SEED is the seed (packaging/check draws one and prints it), WEFT_TEST_FULL=1 makes the run full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weft::test {

bool runs_whole_matrices();

// Returns `count` of the numbers 0 ... size - 1 in ascending order, drawn from the seed and the name; all of
// them if the run is full or there are no more. Prints which were drawn.
std::vector<size_t> draw_slice(std::string_view name, size_t size, size_t count);

// Returns the drawn elements of `cases`, in their order.
template <class Cases>
auto slice(std::string_view name, const Cases& cases, size_t count) {
  std::vector<typename std::decay_t<decltype(*std::begin(cases))>> drawn;
  const size_t size = static_cast<size_t>(std::distance(std::begin(cases), std::end(cases)));
  for (const size_t index : draw_slice(name, size, count))
    drawn.push_back(*std::next(std::begin(cases), static_cast<std::ptrdiff_t>(index)));
  return drawn;
}

}  // namespace weft::test
