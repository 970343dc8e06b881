#include "command/trace_file.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/replaced_file.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"

namespace weft::command {

namespace {

using nlohmann::json;
using trace::Event;

// Builds the events of one rank, which is a process of the trace.
class Events {
 public:
  Events(int rank, trace::Time origin) : rank_(rank), origin_(origin) {}

  void add(const json& event) {
    text_ += text_.empty() ? "" : ",\n";
    text_ += event.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  void name(const char* what, uint32_t thread, const std::string& name) {
    add({{"ph", "M"}, {"pid", rank_}, {"tid", thread}, {"name", what}, {"args", {{"name", name}}}});
  }
  void add(const Event& event, size_t id) {
    json made = {{"name", event.name},
                 {"cat", event.category},
                 {"pid", rank_},
                 {"tid", event.thread},
                 {"ts", microseconds(event.begin - origin_)}};
    if (event.micro_batch >= 0) made["args"]["micro_batch"] = event.micro_batch;
    if (event.bytes >= 0) made["args"]["bytes"] = event.bytes;
    if (!event.in_background) {
      made["ph"] = "X";
      made["dur"] = microseconds(event.end - event.begin);
      return add(made);
    }
    made["ph"] = "b";
    made["id2"]["local"] = fmt::format("{:#x}", id);
    add(made);
    made["ph"] = "e";
    made["ts"] = microseconds(event.end - origin_);
    made.erase("args");
    add(made);
  }
  void mark(const std::string& name, trace::Time time) {
    add({{"ph", "i"},
         {"s", "p"},
         {"pid", rank_},
         {"tid", 0},
         {"name", name},
         {"ts", microseconds(time - origin_)}});
  }
  std::string take() { return std::move(text_); }

 private:
  static double microseconds(trace::Time time) { return static_cast<double>(time) / 1000; }

  int rank_;
  trace::Time origin_;
  std::string text_;
};

// Writes the texts of all ranks on the master, which receives one at a time, so that it never has all of
// them. Returns why the file cannot be written; empty otherwise.
std::string write_all(const std::string& path, const std::string& named, const Communicator& ranks,
                      const std::vector<int64_t>& sizes, std::string own) {
  constexpr uint32_t kTag = 0;
  const auto bytes_of = [](std::string& text) {
    return at::from_blob(text.data(), {static_cast<int64_t>(text.size())}, at::kByte);
  };
  if (ranks.rank() != 0) {
    ranks.send(bytes_of(own), 0, kTag).wait();
    return "";
  }
  std::string failure;
  std::optional<ReplacedFile> file;
  const auto attempt = [&](const auto& action) {
    try {
      if (failure.empty()) action();
    } catch (const Error& error) {
      failure = error.what();
    }
  };
  attempt([&] { file.emplace(path, named); });
  attempt([&] { file->write("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + own); });
  for (int rank = 1; rank < ranks.size(); ++rank) {
    own.resize(static_cast<size_t>(sizes[static_cast<size_t>(rank)]));
    ranks.recv(bytes_of(own), rank, kTag).wait();
    attempt([&] { file->write(",\n" + own); });
  }
  attempt([&] {
    file->write("\n]}\n");
    file->commit();
  });
  return failure;
}

}  // namespace

std::string trace_events(trace::Recording recording, int rank, const std::string& rank_name,
                         trace::Time origin) {
  // An event comes before those that are nested in it.
  std::stable_sort(recording.events.begin(), recording.events.end(), [](const Event& a, const Event& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  Events events(rank, origin);
  events.name("process_name", 0, rank_name);
  std::set<uint32_t> threads;
  for (const Event& event : recording.events) threads.insert(event.thread);
  for (const uint32_t thread : threads)
    events.name("thread_name", thread, thread == 0 ? "training" : fmt::format("thread {}", thread));
  for (size_t i = 0; i < recording.events.size(); ++i) events.add(recording.events[i], i);
  if (recording.full_at)
    events.mark(fmt::format("not recorded from here on: {} events", recording.events.size()),
                *recording.full_at);
  return events.take();
}

TraceFile::TraceFile(std::string path, const World& world) : path_(std::move(path)), world_(world) {
  if (path_.empty()) return;
  world_.priority_execution([&] {
    if (world_.is_master()) ReplacedFile::require_writable(path_, named());
  });
}

TraceFile::~TraceFile() {
  if (!path_.empty()) trace::Recorder::get().stop();
}

void TraceFile::begin() {
  if (path_.empty()) return;
  world_.block_all();
  const at::Tensor time = at::tensor({trace::now()}, at::kLong);
  // Of several hosts, each has a clock of its own; the barrier above is what they have in common.
  if (world_.local_size() == world_.size()) world_.communicator().broadcast(time, 0, true).wait();
  origin_ = device::value_of<int64_t>(time);
  trace::Recorder::get().start(kMostEvents);
}

void TraceFile::write(const std::string& rank_name) {
  if (path_.empty()) return;
  trace::Recording recording = trace::Recorder::get().stop();
  const bool is_full = recording.full_at.has_value();
  std::string own = trace_events(std::move(recording), world_.rank(), rank_name, origin_);
  const at::Tensor facts = at::empty({world_.size(), 2}, at::kLong);
  world_.communicator()
      .all_gather(facts, at::tensor({static_cast<int64_t>(own.size()), int64_t{is_full}}, at::kLong), true)
      .wait();
  std::vector<int64_t> sizes;
  std::vector<int> full;
  const std::vector<int64_t> numbers = device::values_of<int64_t>(facts);
  const int64_t* fact = numbers.data();
  for (int rank = 0; rank < world_.size(); ++rank) {
    sizes.push_back(*fact++);
    if (*fact++ != 0) full.push_back(rank);
  }
  const std::string failure = write_all(path_, named(), world_.communicator(), sizes, std::move(own));
  failed_ = !failure.empty();
  world_.print_on_master(failed_ ? failure : fmt::format("wrote {}", path_));
  if (!full.empty())
    world_.print_on_master(
        fmt::format("--trace {}: only the first {} events of {} are there; train fewer steps", path_,
                    kMostEvents, ranks_text(full)));
}

}  // namespace weft::command
