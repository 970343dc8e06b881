// A file to which the master appends lines of JSON, one for each step.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "step_log/record_file.hpp"

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
  void begin(std::optional<int64_t> last_step);
  // Appends a line, on the master. The first one that cannot be written ends the file (record_file.hpp).
  void write(const nlohmann::json& line);
  std::optional<std::string> incomplete() const { return file_.incomplete(); }

 private:
  uintmax_t end_of_step(int64_t step) const;

  std::string path_, name_;
  World world_;
  RecordFile file_;
};

}  // namespace weft::step_log
