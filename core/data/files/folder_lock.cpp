#include "files/folder_lock.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/made_folder.hpp"
#include "base/text.hpp"

namespace weft::checkpoint {

namespace fs = std::filesystem;

namespace {

using namespace std::chrono_literals;

constexpr const char* kStagingMark = ".saving-";
constexpr const char* kLockEnd = ".saving.lock";
// How long a lock that is held is tried again. The holder may only be looking whether it is held, or be
// inside and about to give up.
constexpr auto kMoment = 250ms;

// Calls `is_done` until it returns true. Returns false after a moment.
template <class Condition>
bool comes_true(const Condition& is_done) {
  const auto end = std::chrono::steady_clock::now() + kMoment;
  while (!is_done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

// Adds the places in `folder`, and in all folders below, that have a lock file.
void find_locked_places(const fs::path& folder, std::vector<fs::path>& places) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.ends_with(kLockEnd)) {
      if (const auto place = saved_place(name)) places.push_back(folder / *place);
    } else if (entry->symlink_status(ignored).type() == fs::file_type::directory) {
      find_locked_places(entry->path(), places);
    }
  }
}

constexpr const char* kAdvice = "wait for it to end, or save to another folder";

}  // namespace

struct FolderLock::Held {
  const fs::path place;
  const FileLock::Flock flock;
  const pid_t process = ::getpid();   // a fork has a copy, but not the lock
  std::optional<MadeFolder> folders;  // above the place; removed after the lock
  std::optional<FileLock> lock;
  std::atomic<bool> is_saving = false;

  // Those of this process.
  static std::map<std::string, std::weak_ptr<Held>>& all() {
    static std::map<std::string, std::weak_ptr<Held>> all;
    return all;
  }
  static std::shared_ptr<Held> find(const fs::path& place) {
    const auto known = all().find(place.string());
    std::shared_ptr<Held> held = known == all().end() ? nullptr : known->second.lock();
    return held != nullptr && held->process == ::getpid() ? held : nullptr;
  }
  // Returns who else holds the lock of a place; nothing if nobody does, or only this process.
  std::optional<std::string> find_other_holder(const fs::path& other) const {
    return find(other) != nullptr ? std::nullopt : FileLock::find_holder(lock_file(other), flock);
  }

  // Runs `action`, whose errors get the place.
  template <class Action>
  auto with_place(const Action& action) const {
    try {
      return action();
    } catch (const Error& error) {
      fail(error.status() == WEFT_RESOURCE_EXHAUSTED ? error.status() : WEFT_UNAVAILABLE,
           "cannot save to {}: {}", place.string(), error.what());
    }
  }

  Held(const fs::path& folder, FileLock::Flock function) : place(folder), flock(function) {
    with_place([this] { folders.emplace(place.parent_path()); });
    take_lock();
    look_outside();
    look_inside();
  }
  void take_lock() {
    lock.emplace(lock_file(place), FileLock::AtEnd::kRemove, flock);
    if (comes_true([&] { return with_place([&] { return lock->try_lock(); }); })) return;
    const std::optional<LockHolder> holder = lock->holder();
    fail(WEFT_UNAVAILABLE, "{} is where another job saves: {} is held by {}; {}", place.string(),
         lock->file().string(), holder ? holder->text() : "another process", kAdvice);
  }
  void look_outside() const {
    for (fs::path above = place.parent_path(); above.has_relative_path(); above = above.parent_path())
      if (const auto holder = find_other_holder(above))
        fail(WEFT_UNAVAILABLE,
             "{} is in {}, where another job saves, and a save replaces a folder with all "
             "that is in it: {} is held by {}; {}",
             place.string(), above.string(), lock_file(above).string(), *holder, kAdvice);
  }
  void look_inside() const {
    std::vector<fs::path> places;
    find_locked_places(place, places);
    for (const fs::path& inside : places) {
      std::optional<std::string> holder;
      if (!comes_true([&] { return !(holder = find_other_holder(inside)); }))
        fail(WEFT_UNAVAILABLE,
             "{} contains {}, where another job saves, and a save replaces a folder with all "
             "that is in it: {} is held by {}; {}",
             place.string(), inside.string(), lock_file(inside).string(), *holder, kAdvice);
    }
  }
};

FolderLock::FolderLock(const fs::path& place, FileLock::Flock flock) {
  static std::mutex mutex;
  const std::lock_guard guard(mutex);
  held_ = Held::find(place);
  if (held_ != nullptr) return;
  held_ = std::make_shared<Held>(place, flock);
  Held::all()[place.string()] = held_;
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

fs::path lock_file(const fs::path& place) {
  return place.parent_path() / fmt::format(".{}{}", place.filename().string(), kLockEnd);
}

std::string staging_prefix(const fs::path& place) {
  return "." + place.filename().string() + kStagingMark;
}

}  // namespace weft::checkpoint
