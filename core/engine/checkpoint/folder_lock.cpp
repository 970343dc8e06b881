#include "checkpoint/folder_lock.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "base/host_name.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace weft::checkpoint {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kStagingMark = ".saving-";
constexpr const char* kLockEnd = ".saving.lock";

// Field 22 of /proc/PID/stat: a later process with the same number has another. Empty if there is none.
std::string start_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "";
  const std::vector<std::string> fields = split(std::string_view(text).substr(name_end + 1), ' ');
  return fields.size() > 19 ? fields[19] : "";
}

// Who has a lock, as its file says.
struct Holder {
  std::string host, start, since;
  int64_t process = 0;

  static Holder own() {
    char time[32] = {};
    const time_t now = std::time(nullptr);
    tm utc{};
    std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S UTC", ::gmtime_r(&now, &utc));
    return {host_name(), start_of(::getpid()), time, ::getpid()};
  }
  // Nothing if the file is empty or not of this kind: it is being written, or the disk had no room for it.
  static std::optional<Holder> read(int file) {
    char text[1024];
    const ssize_t size = ::pread(file, text, sizeof(text), 0);
    try {
      const json read = parse_json({text, static_cast<size_t>(std::max<ssize_t>(size, 0))}, "lock");
      return Holder{read.at("host"), read.at("start"), read.at("since"), integer_at(read, "process", "lock")};
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }
  // A full disk is no reason not to try the save.
  void write(int file) const {
    const std::string text =
        json{{"host", host}, {"process", process}, {"start", start}, {"since", since}}.dump() + "\n";
    if (::ftruncate(file, 0) == 0) [[maybe_unused]]
      const ssize_t written = ::pwrite(file, text.data(), text.size(), 0);
  }
  bool is_dead() const { return host == host_name() && start_of(static_cast<pid_t>(process)) != start; }
};

[[noreturn]] void refuse(const fs::path& place, const fs::path& file, const std::optional<Holder>& holder) {
  fail(WEFT_UNAVAILABLE,
       "{} is where another job saves: {} holds {}; wait for it to end, or save to another folder",
       place.string(),
       holder ? fmt::format("process {} on host {}, since {},", holder->process, printable(holder->host),
                            printable(holder->since))
              : "it",
       file.string());
}

bool has_name(int descriptor, const fs::path& path) {
  struct stat held = {}, named = {};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

// A descriptor with the lock. The holder before removes the file as it ends, so a lock counts only while its
// file has the name.
int open_locked(const fs::path& place, const fs::path& file, FolderLock::Flock flock) {
  for (;;) {
    bool is_new = true;
    int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) {
      is_new = false;
      descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
      if (descriptor < 0 && errno == ENOENT) continue;
    }
    if (descriptor < 0) {
      const int code = errno;
      fail(code == ENOSPC || code == EDQUOT ? WEFT_RESOURCE_EXHAUSTED : WEFT_UNAVAILABLE,
           "cannot save to {}: cannot create {}: {}", place.string(), file.string(), std::strerror(code));
    }
    const int code = flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    const bool no_locks = code != 0 && code != EWOULDBLOCK && code != EINTR;
    if ((code == 0 || (no_locks && is_new)) && has_name(descriptor, file)) return descriptor;
    const std::optional<Holder> holder = Holder::read(descriptor);
    ::close(descriptor);
    if (code == 0 || code == EINTR) continue;
    if (!no_locks || !holder || !holder->is_dead()) refuse(place, file, holder);
    ::unlink(file.c_str());
  }
}

}  // namespace

struct FolderLock::Held {
  fs::path place, file;
  std::vector<fs::path> made;  // folders, the innermost first
  int descriptor = -1;
  pid_t process = ::getpid();  // a fork has a copy, but not the lock
  std::atomic<bool> is_saving = false;

  ~Held() {
    if (descriptor < 0) return;
    if (process == ::getpid()) ::unlink(file.c_str());
    ::close(descriptor);
    remove_made();
  }
  void make_folders() {
    std::error_code error;
    for (fs::path above = place.parent_path(); !above.empty() && !fs::exists(above, error);
         above = above.parent_path())
      made.push_back(above);
    fs::create_directories(place.parent_path(), error);
    if (!error) return;
    remove_made();
    fail(WEFT_UNAVAILABLE, "cannot save to {}: cannot create {}: {}", place.string(),
         place.parent_path().string(), error.message());
  }
  void remove_made() const {
    if (process == ::getpid())
      for (const fs::path& folder : made) ::rmdir(folder.c_str());
  }
};

FolderLock::FolderLock(const fs::path& place, Flock flock) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Held>> all_held;
  const std::lock_guard guard(mutex);
  std::weak_ptr<Held>& known = all_held[place.string()];
  held_ = known.lock();
  if (held_ != nullptr && held_->process == ::getpid()) return;
  auto held = std::make_shared<Held>();
  held->place = place;
  held->file = place.parent_path() / fmt::format(".{}{}", place.filename().string(), kLockEnd);
  held->make_folders();
  try {
    held->descriptor = open_locked(place, held->file, flock);
  } catch (...) {
    held->remove_made();
    throw;
  }
  Holder::own().write(held->descriptor);
  known = held;
  held_ = std::move(held);
}

FolderLock::Save FolderLock::begin_save() const {
  if (held_->is_saving.exchange(true))
    fail(WEFT_FAILED_PRECONDITION, "this process is saving to {} already; wait for that save to end",
         held_->place.string());
  return Save(held_);
}

FolderLock::Save::~Save() {
  if (held_ != nullptr) held_->is_saving = false;
}

FolderLock::Save& FolderLock::Save::operator=(Save&& other) noexcept {
  std::swap(held_, other.held_);
  return *this;
}

std::optional<std::string> saved_place(const std::string& name) {
  if (!name.starts_with('.')) return std::nullopt;
  const size_t end =
      name.ends_with(kLockEnd) ? name.size() - std::strlen(kLockEnd) : name.rfind(kStagingMark);
  if (end == std::string::npos || end < 2) return std::nullopt;
  return name.substr(1, end - 1);
}

std::string staging_prefix(const fs::path& place) {
  return "." + place.filename().string() + kStagingMark;
}

}  // namespace weft::checkpoint
