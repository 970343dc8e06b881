#include "host/launch/job_processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "base/descriptor.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"

namespace weft::launch {
namespace {

// "" if the process is gone or another user's.
std::string read_of(pid_t process, const char* name) {
  const Descriptor file(open(fmt::format("/proc/{}/{}", process, name).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  for (ssize_t size = 0; file && (size = read(file.get(), buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(size));
  return text;
}

// The word after `name` at the beginning of a line.
std::string_view field(std::string_view status, std::string_view name) {
  const size_t begin = status.find(name);
  if (begin == status.npos) return "";
  const std::string_view rest = status.substr(begin + name.size());
  return trim(rest.substr(0, rest.find('\n')));
}

uint64_t signal_set(std::string_view status, std::string_view name) {
  const std::string_view digits = field(status, name);
  uint64_t set = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), set, 16);
  return set;
}

bool has(uint64_t set, int signal) {
  return (set >> (signal - 1) & 1) != 0;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  DIR* const folder = opendir("/proc");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    pid_t process = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (error == std::errc() && end == name.data() + name.size()) found.push_back(process);
  }
  closedir(folder);
  return found;
}

// The handle first, then the look: the number may be another process's by the time of the signal.
bool kill_if_marked(pid_t process, const std::string& entry) {
  const Descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!handle || ('\0' + read_of(process, "environ")).find(entry) == std::string::npos) return false;
  return syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0) == 0;
}

}  // namespace

std::optional<ProcessState> process_state(pid_t process) {
  const std::string status = read_of(process, "status");
  if (status.empty()) return std::nullopt;
  ProcessState state;
  const std::string_view letter = field(status, "\nState:");
  if (!letter.empty()) state.letter = letter.front();
  state.pending = signal_set(status, "\nSigPnd:") | signal_set(status, "\nShdPnd:");
  state.ignored = signal_set(status, "\nSigIgn:");
  state.blocked = signal_set(status, "\nSigBlk:");
  return state;
}

bool has_taken(const ProcessState& state, int signal) {
  return !has(state.pending, signal) && !has(state.ignored, signal) && state.letter != 'T';
}

std::string obstacle(const ProcessState& state, int signal) {
  if (state.letter == 'T' || state.letter == 't')
    return "is stopped (SIGSTOP), and can finish only after SIGCONT";
  if (has(state.ignored, signal)) return fmt::format("ignores {}", signal_name(signal));
  if (has(state.blocked, signal)) return fmt::format("blocks {}", signal_name(signal));
  if (state.letter == 'D') return "waits for a disk or a network file system that does not answer";
  return fmt::format("has not come to take {}", signal_name(signal));
}

std::string program_name(pid_t process) {
  return std::string(trim(read_of(process, "comm")));
}

std::vector<pid_t> group_members(const std::vector<pid_t>& groups) {
  std::vector<pid_t> members;
  for (const pid_t process : all_processes()) {
    // PID (NAME) STATE PARENT GROUP ...; the name may hold anything.
    const std::string stat = read_of(process, "stat");
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    const std::vector<std::string> fields = split(stat.substr(name_end + 1), ' ');
    if (fields.size() < 3 || fields[0] == "Z" || fields[0] == "X") continue;
    if (std::any_of(groups.begin(), groups.end(),
                    [&](pid_t group) { return fields[2] == std::to_string(group); }))
      members.push_back(process);
  }
  return members;
}

void kill_job(std::string_view mark) {
  const std::string entry = fmt::format("{}{}={}{}", '\0', kJobVariable, mark, '\0');
  constexpr int kMostRounds = 100;  // against a process that forks faster than it is killed
  for (int round = 0; round < kMostRounds; ++round) {
    bool any = false;
    for (const pid_t process : all_processes()) any |= process != getpid() && kill_if_marked(process, entry);
    if (!any) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for the killed ones to go
  }
}

}  // namespace weft::launch
