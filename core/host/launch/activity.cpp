#include "host/launch/activity.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
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
constexpr off_t kPage = 4096;
constexpr size_t kLongest = 200;

struct Note {
  int32_t process;
  char text[kLongest + 4];
  int64_t since_ns;  // of the steady clock, which all processes of a host share
};

// The memory of a rank, on a page of its own. The newest note is notes[count % 2], and the next one goes to
// the other place, so a process that is killed while it writes leaves a whole note.
struct Page {
  std::atomic<uint32_t> count;  // of notes that were written
  std::atomic<int32_t> owner;   // the process that counts in `unfinished`
  std::atomic<int32_t> unfinished;
  Note notes[2];
};
static_assert(sizeof(Page) <= kPage && std::atomic<uint32_t>::is_always_lock_free);

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Returns the page of this rank in the launcher's memory; null without a launcher, or where there is none to
// be had: the launcher will know less.
Page* own_page() {
  const int fd = launch::inherited_descriptor(kVariable);
  const std::optional<int64_t> rank = environment_integer("RANK");
  if (fd < 0 || !rank || *rank < 0) return nullptr;
  const off_t place = static_cast<off_t>(*rank) * kPage;
  if (posix_fallocate(fd, place, kPage) != 0) return nullptr;  // other ranks may have made it longer
  void* const found = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, place);
  return found == MAP_FAILED ? nullptr : static_cast<Page*>(found);
}

// This process's own note, and where it goes.
struct Notebook {
  std::mutex mutex;
  Page* const page = own_page();
  const int32_t process = getpid();
  std::string text;

  // Each library that holds this code has a notebook, and all of them have one page. A program that is not
  // the first one of its rank, because a shell started both, begins to count anew.
  Notebook() {
    if (page == nullptr || page->owner.exchange(process) == process) return;
    page->unfinished.store(0);
  }
  void count(int32_t change) {
    // A child that was forked may end as it likes.
    if (page != nullptr && getpid() == process) page->unfinished.fetch_add(change);
  }
};

Notebook& notebook() {
  static Notebook* const made = new Notebook;  // never destroyed: threads write until the end
  return *made;
}

}  // namespace

void note_activity(std::string_view text) noexcept try {
  Notebook& book = notebook();
  const std::lock_guard lock(book.mutex);
  book.text = text.substr(0, kLongest);
  if (book.page == nullptr) return;
  const uint32_t count = book.page->count.load(std::memory_order_relaxed) + 1;
  Note& note = book.page->notes[count % 2];
  note.process = getpid();
  note.since_ns = now_ns();
  std::memcpy(note.text, book.text.c_str(), book.text.size() + 1);
  book.page->count.store(count, std::memory_order_release);
} catch (...) {  // out of memory: the launcher will know less
}

std::string current_activity() {
  Notebook& book = notebook();
  const std::lock_guard lock(book.mutex);
  if (book.page == nullptr) return book.text;
  const uint32_t count = book.page->count.load(std::memory_order_acquire);
  return count == 0 ? "" : book.page->notes[count % 2].text;
}

Unfinished::Unfinished() noexcept {
  notebook().count(1);
}

Unfinished::~Unfinished() {
  notebook().count(-1);
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
  constexpr int kMostTries = 100;  // of a rank that writes one note after the other
  const off_t place = static_cast<off_t>(rank) * kPage;
  const auto get = [&](void* to, size_t size, size_t offset) {
    return pread(memory_.get(), to, size, place + static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  };
  for (int tries = 0; tries < kMostTries; ++tries) {
    uint32_t count = 0, after = 0;
    Note note = {};
    const auto slot = [&] { return offsetof(Page, notes) + count % 2 * sizeof(Note); };
    if (!get(&count, sizeof(count), 0) || count == 0 || !get(&note, sizeof(note), slot()) ||
        !get(&after, sizeof(after), 0))
      return std::nullopt;
    if (after != count) continue;
    note.text[kLongest] = '\0';
    return ActivityNote{note.process, std::chrono::nanoseconds(now_ns() - note.since_ns), note.text};
  }
  return std::nullopt;
}

bool ActivityBoard::has_unfinished(int rank, pid_t process) const {
  int32_t owner = 0, unfinished = 0;
  const off_t place = static_cast<off_t>(rank) * kPage;
  const auto get = [&](int32_t& to, size_t offset) {
    return pread(memory_.get(), &to, sizeof(to), place + static_cast<off_t>(offset)) == sizeof(to);
  };
  return get(owner, offsetof(Page, owner)) && get(unfinished, offsetof(Page, unfinished)) &&
         owner == process && unfinished > 0;
}

}  // namespace launch

}  // namespace weft
