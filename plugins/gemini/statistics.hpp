// What computing takes of the accelerator's memory besides chunks, by operation: measured in the first step,
// or read from a file that an earlier job wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::gemini {

struct Statistics {
  std::vector<int64_t> computing;  // bytes at most, by operation of the trace
  int64_t most_in_use = 0;         // with chunks, at the fullest operation
};

// Names the job that statistics are for: they are of no use for another.
struct StatisticsKey {
  std::vector<std::string> parameters;  // in execution order
  size_t operations = 0;
};

// Nothing if there is no such file. Throws DATA_LOSS if it is none, FAILED_PRECONDITION if it is another
// job's.
std::optional<Statistics> read_statistics(const std::string& path, const StatisticsKey& key);
// Whole or not at all.
void write_statistics(const std::string& path, const StatisticsKey& key, const Statistics& statistics);

}  // namespace weft::gemini
