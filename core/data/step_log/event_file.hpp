// The event files of TensorBoard: records of TFRecord files, each of which is a protobuf message Event.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "step_log/record_file.hpp"

namespace weft::step_log {

using Scalars = std::vector<std::pair<std::string, double>>;  // by tag

// Return an Event as protobuf bytes. `wall_time` is in seconds since 1970.
std::string version_event(double wall_time);
// TensorBoard forgets the values of `first_step` and later ones that it has read before this event.
std::string start_event(double wall_time, int64_t first_step);
std::string scalars_event(double wall_time, int64_t step, const Scalars& scalars);

// Returns `data` with its length and checksums, as it stands in a TFRecord file.
std::string tf_record(std::string_view data);

// A new event file in a folder, which the master writes. Does nothing if the folder is "".
class EventFile {
 public:
  // Creates the folder, and in it a file whose name sorts after those of the event files there, because
  // TensorBoard reads them in this order. Errors call the folder `name` and its path. Throws UNAVAILABLE on
  // every rank if the beginning of the file cannot be written. Collective.
  EventFile(std::string folder, std::string name, const World& world);
  // Removes the file if begin() was not called.
  ~EventFile();
  EventFile(const EventFile&) = delete;
  bool wanted() const { return !folder_.empty(); }

  // Hides what earlier files of the folder have of the steps after `last_step`, or everything. Throws
  // RESOURCE_EXHAUSTED on every rank. Collective.
  void begin(std::optional<int64_t> last_step);
  // Writes the values of a step, on the master, so that a reader finds them at once. The first ones that
  // cannot be written end the file (record_file.hpp).
  void write(int64_t step, const Scalars& scalars);
  std::optional<std::string> incomplete() const { return file_.incomplete(); }

 private:
  void create();

  std::string folder_, name_;
  World world_;
  std::filesystem::path path_;
  RecordFile file_;
  bool begun_ = false;
};

}  // namespace weft::step_log
