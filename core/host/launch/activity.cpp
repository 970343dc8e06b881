#include "host/launch/activity.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>

#include "base/environment.hpp"
#include "base/text.hpp"
#include "host/launch/activity_board.hpp"
#include "host/launch/inherited.hpp"

namespace weft {
namespace {

constexpr const char* kVariable = "WEFT_ACTIVITY_FD";
constexpr std::array<char, 4> kMagic = {'W', 'A', 'C', '1'};

// One page holds 16 of them, so none is ever half in one and half in another.
struct Record {
  std::array<char, 4> magic;
  int32_t process;
  int64_t since_ns;  // of the steady clock, which all processes of a host share
  char text[240];
};
static_assert(sizeof(Record) == 256);

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// This process's own note, and where it goes.
struct Notebook {
  std::mutex mutex;
  int fd = launch::inherited_descriptor(kVariable);
  int rank = static_cast<int>(environment_integer("RANK").value_or(-1));
  Record record = {kMagic, 0, 0, {}};
};

Notebook& notebook() {
  static Notebook* const made = new Notebook;  // never destroyed: threads write until the end
  return *made;
}

}  // namespace

void note_activity(std::string_view text) noexcept try {
  constexpr size_t kLongest = 200;
  Notebook& book = notebook();
  const std::lock_guard lock(book.mutex);
  Record& record = book.record;
  record.process = getpid();
  record.since_ns = now_ns();
  std::memset(record.text, 0, sizeof(record.text));
  std::memcpy(record.text, text.data(), std::min(text.size(), kLongest));
  if (book.fd < 0 || book.rank < 0) return;
  const auto place = static_cast<off_t>(book.rank) * static_cast<off_t>(sizeof(Record));
  if (pwrite(book.fd, &record, sizeof(record), place) < 0) book.fd = -1;
} catch (...) {  // out of memory at the first note: the launcher will know less
}

std::string current_activity() {
  Notebook& book = notebook();
  const std::lock_guard lock(book.mutex);
  return book.record.text;
}

Activity::Activity(std::string name) : name_(std::move(name)), exceptions_(std::uncaught_exceptions()) {
  note_activity("in " + name_);
}

Activity::~Activity() {
  if (std::uncaught_exceptions() == exceptions_) note_activity("after " + name_);
}

ActivityDetail::ActivityDetail(const std::string& words)
    : outer_(current_activity()), exceptions_(std::uncaught_exceptions()) {
  note_activity(outer_.empty() ? words : outer_ + ", " + words);
}

ActivityDetail::~ActivityDetail() {
  if (std::uncaught_exceptions() == exceptions_) note_activity(outer_);
}

namespace launch {

ActivityBoard::ActivityBoard() : memory_(memfd_create("weft-activity", MFD_CLOEXEC)) {
  if (!memory_)
    fail(WEFT_RESOURCE_EXHAUSTED, "cannot make the memory in which ranks note what they do: {}",
         std::strerror(errno));
  variable_ = fmt::format("{}={}", kVariable, identity_of(memory_.get()));
}

std::optional<ActivityNote> ActivityBoard::read(int rank) const {
  Record record = {};
  const auto place = static_cast<off_t>(rank) * static_cast<off_t>(sizeof(Record));
  if (pread(memory_.get(), &record, sizeof(record), place) != sizeof(record) || record.magic != kMagic)
    return std::nullopt;
  record.text[sizeof(record.text) - 1] = '\0';
  return ActivityNote{record.process, std::chrono::nanoseconds(now_ns() - record.since_ns), record.text};
}

}  // namespace launch

}  // namespace weft
