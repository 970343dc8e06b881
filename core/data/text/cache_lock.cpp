#include "text/cache_lock.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "host/launch/activity.hpp"

namespace weft::data {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kSilence = 10s;       // before the first line about a process that makes no progress
constexpr auto kBetweenWords = 60s;  // between two of them
constexpr auto kLongestPause = 100ms;

// Returns text that changes when the holder of the lock touches its file, or writes to one of the unfinished
// files of a cache. A lock of another user is not touched.
std::string progress_of(const fs::path& path) {
  const std::string begin = path.filename().string() + ".";
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(path.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat status = {};
    if (!entry->path().filename().string().starts_with(begin) || ::lstat(entry->path().c_str(), &status) != 0)
      continue;
    found.push_back(fmt::format("{} {} {} {}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                                status.st_mtim.tv_nsec));
  }
  std::sort(found.begin(), found.end());
  return fmt::format("{}", fmt::join(found, "\n"));
}

// An error as text: its status, and what it says.
std::optional<Error> failure_in(const std::string& text) {
  int status = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), status);
  if (problem != std::errc() || status == WEFT_OK) return std::nullopt;
  return Error(status, std::string(trim({rest, static_cast<size_t>(text.data() + text.size() - rest)})));
}

}  // namespace

CacheLock::CacheLock(const fs::path& path, const CacheWait& wait)
    : lock_(path.string() + ".lock", FileLock::AtEnd::kKeep) {
  if (lock_.try_lock()) return;
  const Activity activity(fmt::format("the wait for the token ids of {}", wait.name));
  await(path, wait);
  // A process that is killed tells nothing, so that the next one makes the cache.
  failure_ = failure_in(lock_.left());
}

void CacheLock::await(const fs::path& path, const CacheWait& wait) {
  const auto holder = [&] {
    const std::optional<LockHolder> found = lock_.holder();
    return found ? found->text() : "another process";
  };
  const Clock::time_point begin = Clock::now();
  Clock::time_point last = begin;
  Clock::duration idle{}, word = kSilence;  // without progress; of which a line is printed
  bool is_noted = false;
  std::string progress = progress_of(path);
  for (Clock::duration pause = 1ms; !lock_.try_lock();
       pause = std::min<Clock::duration>(2 * pause, kLongestPause)) {
    std::this_thread::sleep_for(pause);
    // Time in which this process was stopped, perhaps with its job, does not count.
    const Clock::time_point now = Clock::now();
    idle += std::min<Clock::duration>(now - std::exchange(last, now), 1s);
    if (std::string next = progress_of(path); next != progress) {
      progress = std::move(next);
      idle = {};
      word = kSilence;
    }
    if (idle >= wait.timeout)
      fail(WEFT_UNAVAILABLE,
           "{}: waited {} without progress for its token ids, whose lock {} is held by {}; continue or end "
           "that process, or wait longer (--timeout)",
           wait.name, seconds_text(wait.timeout), lock_.file().string(), holder());
    if (!is_noted && now - begin >= kSilence) {
      is_noted = true;
      if (wait.note)
        wait.note(fmt::format("{}: waits for its token ids, which are made by {}", wait.name, holder()));
    }
    if (idle < word) continue;
    word += kBetweenWords;
    const std::string line = fmt::format(
        "{}: no progress for {} with its token ids, which are made by {}; waits {} in all (--timeout)\n",
        wait.name, seconds_text(std::chrono::round<std::chrono::seconds>(idle)), holder(),
        seconds_text(wait.timeout));
    std::fputs(line.c_str(), stderr);  // fmt::print throws where nobody reads
  }
}

void CacheLock::tell(const Error& error) {
  lock_.leave(fmt::format("{} {}", error.status(), error.what()));
}

}  // namespace weft::data
