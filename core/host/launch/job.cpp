#include "host/launch/job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/environment.hpp"
#include "base/host_name.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "host/launch/inherited.hpp"
#include "host/launch/job_processes.hpp"
#include "host/launch/keeper.hpp"
#include "host/launch/master_port.hpp"

namespace weft::launch {
namespace {

using namespace std::chrono_literals;

constexpr auto kJudgement = 500ms;
constexpr auto kEndingTime = 3s;    // from SIGTERM to SIGKILL, after a failure
constexpr auto kKillingTime = 4s;   // from SIGKILL to giving up; ends within the promised 10 s
constexpr auto kGroupLook = 200ms;  // while only processes that a shell started are left
constexpr auto kDoubled = std::chrono::milliseconds(kDoubledSignalMs);

constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr int kPassedSignals[] = {SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

template <typename Numbers>
bool contains(const Numbers& numbers, int number) {
  return std::find(std::begin(numbers), std::end(numbers), number) != std::end(numbers);
}

// Blocks the signals that the launcher reads from descriptor(), until its destruction. Does not block signals
// that this process ignores (as under nohup), because a signalfd delivers blocked signals even if they are
// ignored. Also ignores SIGPIPE and restores the default action of SIGCHLD until then.
class SignalsOfLauncher {
 public:
  SignalsOfLauncher() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGCHLD);
    for (const int number : kEndingSignals)
      if (!is_ignored(number)) sigaddset(&set_, number);
    for (const int number : kPassedSignals)
      if (!is_ignored(number)) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    // If SIGCHLD is ignored, the exit codes of children are lost.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &standard, &child_before_);
    // A terminal that is closed, or `| head`, must not end the job.
    struct sigaction ignored = {};
    ignored.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignored, &pipe_before_);
  }
  SignalsOfLauncher(const SignalsOfLauncher&) = delete;
  ~SignalsOfLauncher() {
    sigaction(SIGPIPE, &pipe_before_, nullptr);
    sigaction(SIGCHLD, &child_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Descriptor descriptor() const { return Descriptor(signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK)); }
  bool broken_pipes_were_ignored() const { return pipe_before_.sa_handler == SIG_IGN; }

 private:
  sigset_t set_, before_;
  struct sigaction child_before_, pipe_before_;
};

}  // namespace

Job::Job(const RunOptions& options, std::string file, bool listens)
    : options_(options), file_(std::move(file)), listens_(listens), host_(host_name()) {
  job_mark_ = fmt::format("{}.{}", getpid(), identity_of(channel_.rank_fd()));
}

int Job::run() {
  const SignalsOfLauncher blocked;
  ignores_broken_pipes_ = blocked.broken_pipes_were_ignored();
  signals_ = blocked.descriptor();
  if (!signals_) fail(WEFT_RESOURCE_EXHAUSTED, "cannot receive signals: {}", std::strerror(errno));
  const Keeper keeper(job_mark_);
  if (const std::optional<int> code = start()) return *code;
  while (!is_over()) {
    wait_for_events();
    for (RankProcess& rank : ranks_) rank.forward_errors();
    read_signals();
    look_at_ranks();
    judge();
    if (phase_ != Phase::kRunning && Clock::now() >= deadline_) on_deadline();
  }
  return finish();
}

std::vector<std::string> Job::shared_environment() const {
  std::vector<std::string> own = {
      "RANK=",
      "LOCAL_RANK=",
      std::string(kMasterListenVariable) + "=",  // of each rank
      fmt::format("WORLD_SIZE={}", options_.num_ranks),
      fmt::format("LOCAL_WORLD_SIZE={}", options_.num_ranks),
      fmt::format("MASTER_ADDR={}", options_.master_addr),
      channel_.variable(),
      board_.variable(),
      fmt::format("{}={}", kJobVariable, job_mark_),
  };
  own.insert(own.end(), options_.environment.begin(), options_.environment.end());
  if (!weft::environment("OMP_NUM_THREADS")) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    own.push_back(fmt::format("OMP_NUM_THREADS={}", std::max(1, cores / options_.num_ranks)));
  }
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view inherited = *entry;
    const std::string_view name = inherited.substr(0, inherited.find('=') + 1);
    const bool replaced = std::any_of(
        own.begin(), own.end(), [&](const std::string& variable) { return variable.starts_with(name); });
    if (!replaced && name != "MASTER_PORT=") result.emplace_back(inherited);
  }
  std::erase_if(own, [](const std::string& variable) { return variable.ends_with("="); });
  result.insert(result.end(), own.begin(), own.end());
  return result;
}

std::optional<int> Job::start() {
  MasterPort port = reserve_master_port(options_.master_addr, options_.master_port, listens_);
  const std::vector<std::string> shared = shared_environment();
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    const bool first = rank == 0;
    RankStart start;
    start.file = file_.c_str();
    start.arguments = options_.command;
    start.environment = shared;
    start.environment.push_back(fmt::format("RANK={}", rank));
    start.environment.push_back(fmt::format("LOCAL_RANK={}", rank));
    start.environment.push_back(fmt::format("MASTER_PORT={}", port.port));
    start.inherited = {channel_.rank_fd(), board_.fd()};
    start.ignores_broken_pipes = ignores_broken_pipes_;
    if (first) {
      start.environment.push_back(fmt::format("{}={}", kMasterListenVariable, port.socket.get()));
      start.inherited.push_back(port.socket.get());
    }
    start.own_input = first && isatty(STDIN_FILENO) == 0 && fcntl(STDIN_FILENO, F_GETFD) >= 0;
    start.keep_errors = !first || isatty(STDERR_FILENO) == 0;
    try {
      ranks_.emplace_back(start);
    } catch (const std::system_error& error) {
      for (RankProcess& started : ranks_) {
        started.signal(SIGKILL);
        started.reap(/*end_group=*/true);
      }
      const bool missing = error.code().value() == ENOENT;
      say(fmt::format("cannot start \"{}\" as rank {}: {}{}", printable(options_.command.front()), rank,
                      std::strerror(error.code().value()),
                      missing ? "; give a program on PATH, or the path of one" : ""));
      return missing ? 127 : 126;
    }
    // From here on the port is rank 0's: when it goes, whoever connects must hear of it.
    if (first) port.socket.reset();
  }
  return std::nullopt;
}

void Job::enter(Phase phase, Clock::duration patience) {
  phase_ = phase;
  deadline_ = Clock::now() + patience;
}

void Job::wait_for_events() {
  std::vector<pollfd> events = {{signals_.get(), POLLIN, 0}, {channel_.fd(), POLLIN, 0}};
  for (const RankProcess& rank : ranks_) {
    if (rank.error_fd() >= 0) events.push_back({rank.error_fd(), POLLIN, 0});
  }
  int timeout = -1;
  if (phase_ != Phase::kRunning) {
    Clock::duration left = deadline_ - Clock::now();
    if (num_running() == 0) left = std::min<Clock::duration>(left, kGroupLook);
    timeout =
        static_cast<int>(std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }
  poll(events.data(), events.size(), timeout);
}

void Job::read_signals() {
  signalfd_siginfo signal = {};
  while (read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) on_signal(signal);
}

void Job::on_signal(const signalfd_siginfo& signal) {
  const int number = static_cast<int>(signal.ssi_signo);
  if (number == SIGCHLD) return;  // look_at_ranks() looks at all of them
  if (number == SIGINT && stop_signal_ == SIGINT) {
    if (Clock::now() - stop_time_ < kDoubled || phase_ >= Phase::kKilling) return;
    say("interrupted twice; the ranks are killed");
    told_ = true;
    return kill_all();
  }
  if (contains(kEndingSignals, number)) {
    // After a failure the ranks are being ended, or will be, and the failure decides the exit code.
    if (phase_ == Phase::kJudging || phase_ > Phase::kStopping) return;
    stop_signals_.insert(number);
    if (stop_signal_ == 0 || number == SIGINT) {
      stop_signal_ = number;
      stop_time_ = Clock::now();
      answers_awaited_ = true;
      enter(Phase::kStopping, time_to_answer());
    }
  }
  signal_all(number);
  if (number != SIGTSTP) return;
  const Clock::time_point begin = Clock::now();
  raise(SIGSTOP);
  deadline_ += Clock::now() - begin;  // the ranks were stopped for as long
}

void Job::signal_all(int number) {
  for (const RankProcess& rank : ranks_) {
    if (!rank.end()) rank.signal(number);
  }
}

void Job::look_at_ranks() {
  std::vector<int> ended;
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) {
    RankProcess& rank = ranks_[i];
    if (rank.end() || !rank.check()) continue;
    ended.push_back(i);
    rank.forward_errors();
  }
  // After the look at the ranks: what a rank reported before its end is then here.
  while (const std::optional<Report> report = channel_.read()) take(*report);
  for (const int rank : ended) look_at_end(rank);
}

void Job::take(const Report& report) {
  if (report.rank < 0 || report.rank >= options_.num_ranks) return;
  if (report.kind == Report::Kind::kSignal) {
    const bool stops = phase_ == Phase::kStopping;
    if ((phase_ != Phase::kRunning && !stops) || findings_.best()) return;  // it has failed already
    stop_signals_.insert(report.number);
    if (stops) return;
    stop_signal_ = report.number;
    stop_time_ = Clock::now();
    say_signalled(report);
    return enter(Phase::kStopping, options_.grace);
  }
  if (report.kind == Report::Kind::kExplained) {
    explained_ = true;
    return;
  }
  reports_.push_back(report);
  if (phase_ <= Phase::kStopping)
    findings_.add(
        {report.rank, report.number == WEFT_UNAVAILABLE ? Evidence::kLostPeer : Evidence::kOwnFailure});
}

// Returns true if a rank ended in the way that a stop signal asks for.
bool Job::as_asked(const RankEnd& end) const {
  return stop_signals_.contains(end.signal) || stop_signals_.contains(end.code - 128);
}

// Returns 128 + the signal that stopped the job. Of several signals, takes the one with which a rank ended.
int Job::stop_code() const {
  if (phase_ < Phase::kKilling)
    for (const RankProcess& rank : ranks_)
      if (rank.end() && as_asked(*rank.end())) return rank.end()->exit_code();
  return 128 + stop_signal_;
}

void Job::look_at_end(int rank) {
  const RankEnd& end = *ranks_[rank].end();
  if (end.success() && phase_ <= Phase::kJudging && board_.has_unfinished(rank, ranks_[rank].id()))
    return findings_.add({rank, Evidence::kExit});
  if (end.success() || as_asked(end) || phase_ >= Phase::kKilling || silenced_.count(rank) > 0) return;
  // Our SIGTERM may end it in any way, but nobody gets a SIGKILL from us before kKilling.
  if (phase_ == Phase::kEnding && end.signal != SIGKILL) return;
  findings_.add({rank, end.signal != 0 && end.signal != SIGABRT ? Evidence::kSignal : Evidence::kExit});
}

void Job::judge() {
  const std::optional<Finding> best = findings_.best();
  if (!best) return;
  const bool waits = phase_ == Phase::kRunning || phase_ == Phase::kJudging;
  if (waits && (findings_.decisive() || num_running() == 0)) return end_others(best->rank);
  if (phase_ == Phase::kRunning) return enter(Phase::kJudging, kJudgement);
  if (phase_ == Phase::kStopping) return end_others(best->rank);
  // The peers of a killed rank see their connections close before we see its end, maybe long before.
  if (phase_ == Phase::kEnding && best->evidence == Evidence::kSignal &&
      findings_.of(cause_) <= Evidence::kExit)
    cause_ = best->rank;
}

void Job::on_deadline() {
  switch (phase_) {
    case Phase::kJudging:
      return end_others(findings_.best()->rank);
    case Phase::kStopping:
      if (std::exchange(answers_awaited_, false)) return kill_silent_ranks();
      for (int rank = 0; rank < options_.num_ranks; ++rank)
        if (silenced_.count(rank) == 0 && !listeners(rank).empty()) say_late(rank);
      told_ = true;
      return kill_all();
    case Phase::kEnding:
      return kill_all();
    default:
      phase_ = Phase::kGivenUp;
  }
}

void Job::end_others(int cause) {
  if (cause_ < 0) cause_ = cause;
  if (findings_.of(cause_) == Evidence::kLostPeer) suspects_ = at_work_now();
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) {
    // One that reported is on its way out and shall keep its own exit code.
    if (i == cause || ranks_[i].end()) continue;
    ended_others_ = true;
    ranks_[i].signal(SIGTERM);
  }
  enter(Phase::kEnding, kEndingTime);
}

void Job::kill_silent_ranks() {
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    std::optional<ProcessState> silent;
    bool any_took = false;
    for (const pid_t process : listeners(rank)) {
      const std::optional<ProcessState> state = process_state(process);
      if (!state) continue;
      if (has_taken(*state, stop_signal_)) any_took = true;
      if (!has_taken(*state, stop_signal_)) silent = state;
    }
    if (any_took || !silent) continue;
    say_silent(rank, obstacle(*silent, stop_signal_));
    told_ = true;
    if (cause_ < 0) cause_ = rank;
    silenced_.insert(rank);
    ranks_[rank].signal(SIGKILL);
  }
  // The other ranks may need the killed one and fail, or finish without it.
  enter(Phase::kStopping, options_.grace - time_to_answer());
}

void Job::kill_all() {
  enter(Phase::kKilling, kKillingTime);
  for (const RankProcess& rank : ranks_) rank.signal(SIGKILL);
}

std::vector<pid_t> Job::listeners(int rank) const {
  const RankProcess& process = ranks_[rank];
  if (process.end()) return group_members({process.id()});
  if (const std::optional<ActivityNote> note = board_.read(rank); note && process_state(note->process))
    return {note->process};
  return {process.id()};
}

int Job::num_running() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return !rank.end(); }));
}

bool Job::is_over() const {
  if (phase_ == Phase::kGivenUp) return true;
  if (num_running() > 0) return false;
  if (phase_ == Phase::kJudging) return false;  // judge() has not seen the last end
  // A shell dies of the signal that the program it started obeys, and has still to finish.
  if (phase_ != Phase::kStopping) return true;
  std::vector<pid_t> groups;
  for (const RankProcess& rank : ranks_) groups.push_back(rank.id());
  return group_members(groups).empty();
}

int Job::finish() {
  for (RankProcess& rank : ranks_) rank.forward_errors();
  const bool failed = cause_ >= 0 || stop_signal_ != 0 || phase_ == Phase::kGivenUp;
  if (cause_ >= 0 && !told_) explain();
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) {
    if (!ranks_[i].end())
      say(fmt::format("{} does not end although it was killed; it is left behind", named(i)));
    ranks_[i].reap(failed);
  }
  if (failed) kill_job(job_mark_);
  if (stop_signal_ != 0 && (told_ || !failed_by_itself())) return stop_code();
  if (cause_ < 0) return 0;
  const std::optional<RankEnd>& end = ranks_[cause_].end();
  // A rank that reported a failure and had not ended after kEndingTime: our SIGKILL is not how it failed.
  const bool killed_by_us = end && end->signal == SIGKILL && findings_.of(cause_) != Evidence::kSignal;
  return end && !end->success() && !killed_by_us ? end->exit_code() : 1;
}

}  // namespace weft::launch
