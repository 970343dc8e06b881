// How much accelerator memory each operation needs in addition to chunks. Measured in the first step, or read
// from a file that an earlier job wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::plugin::gemini {

struct Statistics {
  std::vector<int64_t> computing;  // peak bytes without chunks, by operation of the trace
  int64_t most_in_use = 0;         // peak bytes with chunks, over all operations
};

// Identifies the job to which statistics belong.
struct StatisticsKey {
  std::vector<std::string> parameters;  // in execution order
  size_t operations = 0;
};

// Reads a file. Returns nothing if it does not exist. Throws DATA_LOSS if it is not a file of statistics, and
// FAILED_PRECONDITION if it belongs to another job.
std::optional<Statistics> read_statistics(const std::string& path, const StatisticsKey& key);
// Writes a file completely or not at all.
void write_statistics(const std::string& path, const StatisticsKey& key, const Statistics& statistics);

}  // namespace weft::plugin::gemini
