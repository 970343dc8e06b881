// A file to which the master appends lines of JSON, one for each result.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "weft/world.hpp"

namespace weft::step_log {

// Does nothing if the path is empty.
class JsonLines {
 public:
  // Opens the file, with the lines that it has. Errors call it `name` and its path. Throws UNAVAILABLE on
  // every rank. Collective.
  JsonLines(std::string path, std::string name, const World& world);
  bool wanted() const { return !path_.empty(); }

  // Removes the lines of an earlier run: all of them, or those after the line of `last_step`. Does nothing
  // with a pipe or device. Throws UNAVAILABLE on every rank. Collective.
  void begin(std::optional<int64_t> last_step = std::nullopt);
  // Appends a line, on the master. Does nothing more once nobody reads the other end of a pipe. Throws
  // RESOURCE_EXHAUSTED.
  void write(const nlohmann::json& line);

 private:
  uintmax_t end_of_step(int64_t step) const;

  std::string path_, name_;
  World world_;
  std::ofstream file_;  // open on the master only
};

}  // namespace weft::step_log
