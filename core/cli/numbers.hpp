// Reads numbers of flags. CLI11's own conversion takes 010 for 8, the largest number for a larger one, and
// drops the empty elements of 1,,3; here each number is decimal and takes the whole text, or the command is
// refused.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace weft::cli {

struct IntegerRange {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
};

// Read the value of `who`, which messages name. Throw UsageError for a text that is no integer within
// `range`, or no finite number that a double can hold.
int64_t read_integer(const std::string& who, const std::string& text, IntegerRange range = {});
double read_real(const std::string& who, const std::string& text);
// Read such numbers with commas between them. An empty text is an error, or no number if the list
// `may_be_empty`.
std::vector<int64_t> read_integers(const std::string& who, const std::string& text, bool may_be_empty);
std::vector<double> read_reals(const std::string& who, const std::string& text);

}  // namespace weft::cli
