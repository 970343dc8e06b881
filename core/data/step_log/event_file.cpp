#include "step_log/event_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/host_name.hpp"
#include "base/text.hpp"
#include "step_log/crc32c.hpp"

namespace weft::step_log {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class Unsigned>
void append_little_endian(std::string& bytes, Unsigned value) {
  for (size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
}

// The fields of a protobuf message, in the order in which they are added.
class Message {
 public:
  Message& integer(uint32_t field, int64_t value) {
    key(field, kVarint);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& real(uint32_t field, double value) {
    key(field, kFixed64);
    append_little_endian(bytes_, std::bit_cast<uint64_t>(value));
    return *this;
  }
  Message& real(uint32_t field, float value) {
    key(field, kFixed32);
    append_little_endian(bytes_, std::bit_cast<uint32_t>(value));
    return *this;
  }
  Message& bytes(uint32_t field, std::string_view value) {
    key(field, kLengthDelimited);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(uint32_t field, const Message& value) { return bytes(field, value.bytes_); }
  std::string take() { return std::move(bytes_); }

 private:
  enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };
  void key(uint32_t field, WireType type) { varint(field << 3 | type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// The numbers of fields, as in TensorFlow's event.proto and summary.proto.
namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr uint32_t kStatus = 1;
constexpr int64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr uint32_t kValue = 1, kTag = 1, kSimpleValue = 2;
}

Message event_of(double time, int64_t step) {
  Message made;
  made.real(event::kWallTime, time);
  if (step != 0) made.integer(event::kStep, step);
  return made;
}

// Returns the time in the name of the newest event file of a folder, in seconds; 0 if there is none.
int64_t newest_time(const fs::path& folder) {
  int64_t newest = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    int64_t time = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), time);
    newest = std::max(newest, time);
  }
  return newest;
}

}  // namespace

std::string version_event(double wall_time) {
  return event_of(wall_time, 0).bytes(event::kFileVersion, "brain.Event:2").take();
}

std::string start_event(double wall_time, int64_t first_step) {
  return event_of(wall_time, first_step)
      .message(event::kSessionLog, Message().integer(session_log::kStatus, session_log::kStart))
      .take();
}

std::string scalars_event(double wall_time, int64_t step, const Scalars& scalars) {
  Message values;
  for (const auto& [tag, value] : scalars)
    values.message(
        summary::kValue,
        Message().bytes(summary::kTag, tag).real(summary::kSimpleValue, static_cast<float>(value)));
  return event_of(wall_time, step).message(event::kSummary, values).take();
}

std::string tf_record(std::string_view data) {
  std::string record;
  append_little_endian(record, uint64_t{data.size()});
  append_little_endian(record, masked_crc32c(record));
  record += data;
  append_little_endian(record, masked_crc32c(data));
  return record;
}

EventFile::EventFile(std::string folder, std::string name, const World& world)
    : folder_(std::move(folder)), name_(std::move(name)), world_(world), file_(name_ + " " + folder_, world) {
  if (!wanted()) return;
  // All ranks throw this error. Otherwise they would report that rank 0 is gone.
  world_.priority_execution([&] {
    if (world_.is_master()) create();
  });
}

EventFile::~EventFile() {
  if (!file_.is_open() || begun_) return;
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void EventFile::create() {
  const auto refuse = [&](const std::string& why) {
    fail(WEFT_UNAVAILABLE, "{} {}: cannot write there: {}", name_, folder_, why);
  };
  int64_t time = static_cast<int64_t>(wall_time());
  try {
    fs::create_directories(folder_);
    time = std::max(time, newest_time(folder_) + 1);
  } catch (const fs::filesystem_error& error) {
    refuse(error.code().message());
  }
  path_ = fs::path(folder_) / fmt::format("{}{:010}.{}.{}", kPrefix, time, host_name(), ::getpid());
  int code = file_.open(path_, true);
  if (code == 0) code = file_.try_append(tf_record(version_event(wall_time())));
  if (code == 0) return;
  std::error_code ignored;
  if (file_.is_open()) fs::remove(path_, ignored);
  refuse(std::strerror(code));
}

void EventFile::begin(std::optional<int64_t> last_step) {
  if (!wanted()) return;
  world_.priority_execution([&] {
    if (!file_.is_open()) return;
    const int code = file_.try_append(tf_record(start_event(wall_time(), last_step ? *last_step + 1 : 0)));
    if (code != 0)
      fail(WEFT_RESOURCE_EXHAUSTED, "{} {}: cannot write there: {}", name_, folder_, std::strerror(code));
  });
  begun_ = true;
}

void EventFile::write(int64_t step, const Scalars& scalars) {
  if (file_.is_open()) file_.append(tf_record(scalars_event(wall_time(), step, scalars)));
}

}  // namespace weft::step_log
