// The file of --metrics, to which the master writes one line of JSON for each result.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "weft/world.hpp"

namespace weft::command {

// Does nothing if the path is empty.
class MetricsFile {
 public:
  // Opens the file, with the lines that it has. Throws UNAVAILABLE on every rank. Collective.
  MetricsFile(std::string path, const World& world);
  bool wanted() const { return !path_.empty(); }

  // Removes the lines of an earlier run: all of them, or those after the line of `last_step`. Does nothing
  // with a pipe or device. Throws UNAVAILABLE on every rank. Collective.
  void begin(std::optional<int64_t> last_step = std::nullopt);
  // Appends a line, on the master. Does nothing more once nobody reads the other end of a pipe. Throws
  // RESOURCE_EXHAUSTED.
  void write(const nlohmann::json& line);

 private:
  uintmax_t end_of_step(int64_t step) const;

  std::string path_;
  World world_;
  std::ofstream file_;  // open on the master only
};

}  // namespace weft::command
