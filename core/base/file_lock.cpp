#include "base/file_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <utility>
#include <vector>

#include "base/files.hpp"
#include "base/host_name.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace weft {

using nlohmann::json;

namespace {

constexpr size_t kMostText = 8192;  // of the file

struct ProcessFacts {
  std::string state, start;  // fields 3 and 22 of /proc/PID/stat; empty if there is no such process
};

ProcessFacts facts_of(int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  const std::vector<std::string> fields = split(std::string_view(text).substr(name_end + 1), ' ');
  return fields.size() > 19 ? ProcessFacts{fields[0], fields[19]} : ProcessFacts{};
}

LockHolder own_holder() {
  char time[32] = {};
  const time_t now = std::time(nullptr);
  tm utc{};
  std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S UTC", ::gmtime_r(&now, &utc));
  return {host_name(), facts_of(::getpid()).start, time, ::getpid()};
}

// Returns what a lock file contains, an empty object if it is empty or of another kind: it is being written,
// or the disk had no room for it.
json read_content(int file) {
  char text[kMostText];
  const ssize_t size = ::pread(file, text, sizeof(text), 0);
  json content = json::parse(text, text + std::max<ssize_t>(size, 0), nullptr, false);
  return content.is_object() ? content : json::object();
}

std::optional<LockHolder> holder_in(const json& content) {
  try {
    return LockHolder{content.at("host"), content.at("start"), content.at("since"),
                      integer_at(content, "process", "lock")};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string text_left_in(const json& content) {
  const json left = content.value("left", json());
  return left.is_string() ? left.get<std::string>() : "";
}

// Returns the process of this host that has the lock of an open file, or 0 if the kernel does not name one.
int64_t locking_process(int file) {
  struct stat status = {};
  if (::fstat(file, &status) != 0) return 0;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    int64_t process = 0;
    unsigned device_major = 0, device_minor = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%*d: FLOCK %*s WRITE %ld %x:%x:%lu", &process, &device_major,
                    &device_minor, &inode) == 4 &&
        process > 0 && inode == status.st_ino && device_major == major(status.st_dev) &&
        device_minor == minor(status.st_dev))
      return process;
  }
  return 0;
}

// What the file says is not true of a file of another user, which nobody else writes.
std::optional<LockHolder> find_holder_of(int file) {
  const std::optional<LockHolder> said = holder_in(read_content(file));
  const int64_t process = locking_process(file);
  if (process == 0) return said;
  if (said && said->process == process && said->host == host_name() && !said->has_ended()) return said;
  return LockHolder{host_name(), facts_of(process).start, "", process};
}

[[noreturn]] void refuse(const std::filesystem::path& file, int code) {
  const weft_status status =
      code == ENOSPC || code == EDQUOT ? WEFT_RESOURCE_EXHAUSTED
      : code == EACCES || code == EPERM || code == EROFS || code == EISDIR || code == ENXIO
          ? WEFT_PERMISSION_DENIED
          : WEFT_UNAVAILABLE;
  fail(status, "cannot create {}: {}", file.string(), std::strerror(code));
}

}  // namespace

std::string LockHolder::text() const {
  std::string text = fmt::format("process {} on host {}", process, printable(host));
  if (!since.empty()) text += ", since " + printable(since);
  const ProcessFacts facts = host == host_name() ? facts_of(process) : ProcessFacts{};
  if (facts.start == start && (facts.state == "T" || facts.state == "t"))
    text += ", which is stopped (SIGSTOP)";
  return has_ended() ? text + ", which has ended" : text;
}

bool LockHolder::has_ended() const {
  return host == host_name() && facts_of(process).start != start;
}

FileLock::FileLock(std::filesystem::path file, AtEnd at_end, Flock flock)
    : file_(std::move(file)), at_end_(at_end), flock_(flock) {}

FileLock::~FileLock() {
  if (has_lock_ && process_ == ::getpid() && at_end_ == AtEnd::kRemove && is_own_ && has_name())
    ::unlink(file_.c_str());
  close();
}

void FileLock::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

// Opens the file, or makes it. Returns whether it is new.
bool FileLock::open() {
  for (;;) {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    is_own_ = is_believed_ = descriptor_ >= 0;
    if (is_own_) return true;
    if (errno != EEXIST) refuse(file_, errno);
    for (const int access : {O_RDWR, O_RDONLY}) {
      descriptor_ = ::open(file_.c_str(), access | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
      if (descriptor_ >= 0 || (errno != EACCES && errno != EPERM && errno != EROFS)) break;
    }
    if (descriptor_ >= 0) break;
    if (errno == ELOOP)
      fail(WEFT_PERMISSION_DENIED, "{} is a link, which a lock does not follow; remove it", file_.string());
    if (errno != ENOENT) refuse(file_, errno);  // ENOENT: its holder has removed it since
  }
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close();
    fail(WEFT_PERMISSION_DENIED, "{} is no regular file, so it cannot be a lock; remove it", file_.string());
  }
  // A file with a second name may be somebody's data.
  is_own_ = status.st_uid == ::geteuid() && status.st_nlink <= 1;
  is_believed_ = status.st_uid == ::geteuid() || status.st_uid == 0;
  return false;
}

bool FileLock::has_name() const {
  struct stat held = {}, named = {};
  return ::fstat(descriptor_, &held) == 0 && ::lstat(file_.c_str(), &named) == 0 && is_same_file(held, named);
}

bool FileLock::may_take_over() const {
  const std::optional<LockHolder> holder = holder_in(read_content(descriptor_));
  return is_own_ && holder && holder->has_ended();
}

void FileLock::write(const std::string& left) const {
  if (!is_own_) return;
  const LockHolder own = own_holder();
  json content = {{"host", own.host}, {"process", own.process}, {"start", own.start}, {"since", own.since}};
  if (!left.empty()) content["left"] = left.substr(0, kMostText / 2);
  const std::string text = content.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  // A full disk is no reason to fail.
  if (::ftruncate(descriptor_, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), 0);
}

void FileLock::take() {
  has_lock_ = true;
  process_ = ::getpid();
  write("");
}

// A holder may remove the file as it ends, so a lock counts only while its file has the name.
bool FileLock::try_lock() {
  for (;;) {
    const bool is_new = descriptor_ < 0 && open();
    const int code = flock_(descriptor_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (code == EINTR) continue;
    if (code == 0 && std::exchange(has_waited_, false) && is_believed_)
      left_ = text_left_in(read_content(descriptor_));
    const bool has_no_locks = code != 0 && code != EWOULDBLOCK;
    const bool file_counts = has_no_locks && !is_new && at_end_ == AtEnd::kRemove;
    if (has_name()) {
      if (code == EWOULDBLOCK || (file_counts && !may_take_over())) {
        has_waited_ = true;
        return false;
      }
      if (!file_counts) {
        take();
        return true;
      }
      ::unlink(file_.c_str());
    }
    close();
  }
}

std::optional<LockHolder> FileLock::holder() const {
  return descriptor_ < 0 ? std::nullopt : find_holder_of(descriptor_);
}

void FileLock::touch() const {
  using namespace std::chrono;
  const int64_t now = duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
  int64_t before = touched_ms_;
  if (!is_own_ || now - before < 100 || !touched_ms_.compare_exchange_strong(before, now)) return;
  ::futimens(descriptor_, nullptr);
}

void FileLock::leave(const std::string& text) {
  write(text);
}

std::optional<std::string> FileLock::find_holder(const std::filesystem::path& file, Flock flock) {
  FileLock probe(file, AtEnd::kRemove, flock);
  probe.descriptor_ = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  struct stat status = {};
  if (probe.descriptor_ < 0 || ::fstat(probe.descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
    return std::nullopt;
  const int code = flock(probe.descriptor_, LOCK_SH | LOCK_NB) == 0 ? 0 : errno;
  const std::optional<LockHolder> holder = code == 0 ? std::nullopt : probe.holder();
  if (code == 0 || (code != EWOULDBLOCK && holder && holder->has_ended())) return std::nullopt;
  return holder ? holder->text() : "another process";
}

}  // namespace weft
