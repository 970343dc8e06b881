// The processes of a job as /proc shows them: ranks, and what they started, also where it left their groups.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::launch {

// What every process that a rank starts inherits: WEFT_JOB=MARK, another one for each job.
inline constexpr const char* kJobVariable = "WEFT_JOB";

struct ProcessState {
  char letter = '?';                               // of /proc/PID/status: R, S, D, T, Z, ...
  uint64_t pending = 0, ignored = 0, blocked = 0;  // sets of signals
};

// Returns nothing if there is no such process.
std::optional<ProcessState> process_state(pid_t process);
// Whether the signal has been delivered to the process, to do with it what it likes.
bool has_taken(const ProcessState& state, int signal);
// What keeps it from that, as words that follow "it": "is stopped (SIGSTOP)".
std::string obstacle(const ProcessState& state, int signal);

// "bash", or "" if there is no such process.
std::string program_name(pid_t process);

// Returns the live members of these process groups.
std::vector<pid_t> group_members(const std::vector<pid_t>& groups);

// Kills every process that carries WEFT_JOB=`mark` in its environment, until there is none.
void kill_job(std::string_view mark);

}  // namespace weft::launch
