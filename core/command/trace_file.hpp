// The file of --trace, into which the master writes what all ranks did, in the JSON format of trace events
// that Perfetto and chrome://tracing read.
#pragma once

#include <string>

#include "trace/trace.hpp"
#include "weft/world.hpp"

namespace weft::command {

// Does nothing if the path is empty.
class TraceFile {
 public:
  // A rank keeps at most this many events, about 200 bytes each, and records none after them.
  static constexpr size_t kMostEvents = size_t{1} << 18;
  // Throws UNAVAILABLE on every rank if the master cannot write there. Leaves the content. Collective.
  TraceFile(std::string path, const World& world);
  // Ends the recording.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;

  // Begins to record, at the time 0 of the trace. Collective.
  void begin();
  // Ends the recording and writes the events of all ranks in place of what the file held. `rank_name` is this
  // rank's. If the file cannot be written, keeps what it held and says so on stderr. Collective.
  void write(const std::string& rank_name);
  // Returns whether the file could not be written, on the master.
  bool failed() const { return failed_; }
  // Returns what messages call the file: "--trace t.json".
  std::string named() const { return "--trace " + path_; }

 private:
  std::string path_;
  World world_;
  bool failed_ = false;
  trace::Time origin_ = 0;
};

// Returns the events of a rank, as JSON objects with a comma and a line end between them.
std::string trace_events(trace::Recording recording, int rank, const std::string& rank_name,
                         trace::Time origin);

}  // namespace weft::command
