// The messages of the launcher at the end of a job: which rank, on which host, what it was doing, what to do.
#include <signal.h>

#include <algorithm>

#include "base/duration.hpp"
#include "base/rank_failure.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "host/launch/job.hpp"
#include "host/launch/job_processes.hpp"

namespace weft::launch {
namespace {

std::string indented(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "      ";
  }
  return result;
}

// Returns how a rank's message continues `work`, which says what the rank did. If the message begins with the
// words with which `work` ends, leaves them out: they are there already.
std::string after(std::string_view work, std::string_view message) {
  constexpr size_t kFewest = 8;  // fewer may be the same by chance
  for (size_t size = std::min(work.size(), message.size()); size >= kFewest; --size)
    if (work.ends_with(message.substr(0, size)) && message.substr(size).starts_with(": "))
      return std::string(message.substr(size));
  return ": " + std::string(message);
}

const char* advice(int signal) {
  switch (signal) {
    case SIGKILL:
      return "if nobody sent it, memory ran out: `dmesg` names what the kernel killed";
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
      return "to stop a job, signal the launcher, which tells all ranks";
    case SIGXFSZ:
      return "a file grew beyond the limit of file sizes: raise `ulimit -f`";
    case SIGXCPU:
      return "the limit of processor time was reached: raise `ulimit -t`";
    case SIGPIPE:
      return "it wrote to a pipe that nobody reads any more";
    case SIGBUS:
      return "a file that it had mapped became shorter, or its disk is full or failed; or the program "
             "crashed";
    case SIGSEGV:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS:
      return "the program crashed: a debugger, or a core file (`ulimit -c unlimited`), shows where";
    default:
      return "somebody sent it";
  }
}

}  // namespace

void Job::say(const std::string& text) const {
  write_error(fmt::format("weft: {}: {}\n", options_.verb, text));
}

std::string Job::named(int rank) const {
  const std::optional<ActivityNote> note = board_.read(rank);
  return fmt::format("rank {} (pid {} on {})", rank, note ? note->process : ranks_[rank].id(), host_);
}

std::string Job::at_work(int rank) const {
  const std::optional<ActivityNote> note = board_.read(rank);
  return note ? " " + printable(note->text, 256) : "";
}

std::string Job::at_work_now() const {
  std::string lines;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    const std::optional<ActivityNote> note = board_.read(rank);
    // One that ended because it lost a peer, too, says for whom it waited.
    const bool lost_peer = std::any_of(reports_.begin(), reports_.end(), [&](const Report& report) {
      return report.rank == rank && report.number == WEFT_UNAVAILABLE;
    });
    if (rank == cause_ || (ranks_[rank].end() && !lost_peer) || !note) continue;
    const std::optional<ProcessState> state = process_state(note->process);
    lines += fmt::format("\n      {} was {}, for {}{}", named(rank), printable(note->text, 256),
                         seconds_text(note->age),
                         state && state->letter == 'T' ? ", and is stopped (SIGSTOP)" : "");
  }
  return lines;
}

void Job::say_signalled(const Report& report) const {
  const std::string program = program_name(report.sender);
  say(fmt::format("{} got {} from process {}{}{}; all ranks stop with it", named(report.rank),
                  signal_name(report.number), report.sender,
                  program.empty() ? "" : " (" + printable(program) + ")", at_work(report.rank)));
}

void Job::say_silent(int rank, const std::string& why) const {
  const std::optional<ActivityNote> note = board_.read(rank);
  say(fmt::format(
      "{} did not take {} within {} and was killed: it {}{}", named(rank), signal_name(stop_signal_),
      seconds_text(time_to_answer()), why,
      note ? fmt::format("; it was {}, for {}", printable(note->text, 256), seconds_text(note->age)) : ""));
}

void Job::say_late(int rank) const {
  const std::optional<ActivityNote> note = board_.read(rank);
  say(fmt::format(
      "{} was killed: it had not ended {} after {}{}; --grace gives it more time", named(rank),
      seconds_text(options_.grace), signal_name(stop_signal_),
      note ? fmt::format(" and was {}, for {}", printable(note->text, 256), seconds_text(note->age)) : ""));
}

void Job::explain() const {
  // A rank that dies of a stop signal takes its peers with it, which needs no explanation. A failure of a
  // rank's own does, such as that of the save after the signal.
  const auto died_of_it = [&](const RankProcess& rank) {
    return rank.end() && stop_signals_.contains(rank.end()->signal);
  };
  if (!failed_by_itself() && std::any_of(ranks_.begin(), ranks_.end(), died_of_it)) return;

  const std::optional<RankEnd>& end = ranks_[cause_].end();
  if (explained_ && findings_.of(cause_) == Evidence::kExit && end && end->code == 1) return;
  const auto report =
      std::find_if(reports_.begin(), reports_.end(), [&](const Report& r) { return r.rank == cause_; });
  const char* others = ended_others_ ? "; the other ranks were ended" : "";
  int blamed = cause_;
  std::string text;
  if (report != reports_.end()) {
    // Ranks that fail together all report what one of them failed with.
    const int culprit = culprit_of(report->text).value_or(cause_);
    if (culprit < options_.num_ranks) blamed = culprit;
    const std::string work = at_work(blamed);
    const bool says_so = report->text.find(work) != std::string::npos;
    const std::string message = indented(without_culprit(report->text));
    text = named(blamed) + " failed" + (says_so ? ": " + message : work + after(work, message)) + suspects_;
  } else if (end && end->signal != 0) {
    text = fmt::format("{} was killed by signal {} ({}){}{}; {}", named(cause_), end->signal,
                       signal_name(end->signal), at_work(cause_), others, advice(end->signal));
  } else {
    text = fmt::format("{} exited with code {}{}{}{}", named(cause_), end ? end->code : 1, at_work(cause_),
                       end && end->success() ? ", before its work was done" : "", others);
  }
  // Another rank reported a failure of its own at the same time.
  if (report == reports_.end() && !reports_.empty() && reports_.front().number != WEFT_UNAVAILABLE)
    text +=
        fmt::format("\n      rank {} reported: {}", reports_.front().rank, indented(reports_.front().text));
  const std::vector<std::string> lines = ranks_[blamed].last_lines();
  if (!lines.empty()) text += fmt::format("\n      last lines of rank {}:", blamed);
  for (const std::string& line : lines) text += "\n      | " + printable(line, 1000);
  say(text);
}

}  // namespace weft::launch
