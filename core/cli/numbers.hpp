// Flags with numbers. CLI11's own conversion takes 010 for 8, the largest number for a larger one, and drops
// the empty elements of 1,,3; here each number is decimal and takes the whole text, or the command is
// refused.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace weft::cli {

struct IntegerRange {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
};

// Add a flag, and pass its value to `take` while the command line is parsed. Parsing throws UsageError for a
// text that is no integer within `range`, or no finite number that a double can hold.
CLI::Option* add_integer(CLI::App& app, const std::string& flags, const std::string& help,
                         const std::function<void(int64_t)>& take, IntegerRange range = {});
CLI::Option* add_real(CLI::App& app, const std::string& flags, const std::string& help,
                      const std::function<void(double)>& take);
// Add a flag for such numbers with commas between them. An empty text is an error, or no number if the list
// `may_be_empty`.
CLI::Option* add_integers(CLI::App& app, const std::string& flags, const std::string& help,
                          const std::function<void(const std::vector<int64_t>&)>& take,
                          bool may_be_empty = false);
CLI::Option* add_reals(CLI::App& app, const std::string& flags, const std::string& help,
                       const std::function<void(const std::vector<double>&)>& take);

}  // namespace weft::cli
