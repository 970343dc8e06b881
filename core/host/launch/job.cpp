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
#include "base/rank_failure.hpp"
#include "base/text.hpp"
#include "host/launch/master_port.hpp"

namespace weft::launch {
namespace {

using namespace std::chrono_literals;

constexpr auto kGrace = 3s;  // from SIGTERM to SIGKILL
constexpr auto kPatience =
    4s;  // from SIGKILL to giving up; with kGrace under the 10 s that users are promised
constexpr auto kDoubled =
    100ms;  // timeout(1) signals a process and then its group: that is one Ctrl-C, not two

constexpr int kStopping[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr int kPassed[] = {SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

template <typename Numbers>
bool contains(const Numbers& numbers, int number) {
  return std::find(std::begin(numbers), std::end(numbers), number) != std::end(numbers);
}

// Blocks the signals that a Descriptor delivers instead, until it goes.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGCHLD);
    for (const int number : kStopping) sigaddset(&set_, number);
    for (const int number : kPassed) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    // Ignored, children would vanish with their exit codes.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &standard, &child_before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  ~BlockedSignals() {
    sigaction(SIGCHLD, &child_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Descriptor descriptor() const { return Descriptor(signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK)); }

 private:
  sigset_t set_, before_;
  struct sigaction child_before_;
};

std::string indented(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "      ";
  }
  return result;
}

}  // namespace

Job::Job(const RunOptions& options, std::string file, std::pair<std::string, std::string> mark, bool listens)
    : options_(options), file_(std::move(file)), mark_(std::move(mark)), listens_(listens) {}

int Job::run() {
  const BlockedSignals blocked;
  signals_ = blocked.descriptor();
  if (!signals_) fail(WEFT_RESOURCE_EXHAUSTED, "cannot receive signals: {}", std::strerror(errno));
  if (const std::optional<int> code = start()) return *code;
  while (num_running() > 0 && !gave_up_) {
    wait_for_events();
    for (RankProcess& rank : ranks_) rank.forward_errors();
    read_signals();
    check_ranks();
    kill_late_ranks();
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
      mark_.first + "=" + mark_.second,
  };
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
    start.inherited = {channel_.rank_fd()};
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

void Job::wait_for_events() {
  std::vector<pollfd> events = {{signals_.get(), POLLIN, 0}, {channel_.fd(), POLLIN, 0}};
  for (const RankProcess& rank : ranks_) {
    if (rank.error_fd() >= 0) events.push_back({rank.error_fd(), POLLIN, 0});
  }
  int timeout = -1;
  if (ending_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
    timeout = static_cast<int>(std::max<int64_t>(0, left.count()));
  }
  poll(events.data(), events.size(), timeout);
}

void Job::read_signals() {
  signalfd_siginfo signal = {};
  while (read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) on_signal(signal);
}

void Job::on_signal(const signalfd_siginfo& signal) {
  const int number = static_cast<int>(signal.ssi_signo);
  if (number == SIGCHLD) return;  // check_ranks() looks at all of them
  if (number == SIGINT && stop_signal_ == SIGINT) {
    if (Clock::now() - stop_time_ < kDoubled || killed_) return;
    say("interrupted twice; the ranks are killed");
    ending_ = killed_ = true;
    deadline_ = Clock::now() + kPatience;
    signal_all(SIGKILL);
    return;
  }
  if (contains(kStopping, number) && (stop_signal_ == 0 || number == SIGINT)) {
    stop_signal_ = number;
    stop_time_ = Clock::now();
  }
  signal_all(number);
  if (number == SIGTSTP) raise(SIGSTOP);
}

void Job::signal_all(int number) {
  for (const RankProcess& rank : ranks_) {
    if (!rank.end()) rank.signal(number);
  }
}

void Job::check_ranks() {
  std::vector<int> ended;
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) {
    RankProcess& rank = ranks_[i];
    if (rank.end() || !rank.check()) continue;
    ended.push_back(i);
    rank.forward_errors();
  }
  // After the look at the ranks: what a rank reported before its end is then here.
  while (std::optional<FailureReport> report = channel_.read()) {
    if (report->rank >= 0 && report->rank < options_.num_ranks) reports_.push_back(std::move(*report));
  }
  find_cause(ended);
}

// Whether a rank ended as the signal that we passed on demands.
bool Job::as_asked(const RankEnd& end) const {
  return stop_signal_ != 0 && (end.signal == stop_signal_ || end.code == 128 + stop_signal_);
}

void Job::find_cause(const std::vector<int>& ended) {
  const bool undecided = cause_ < 0;
  for (const int rank : ended) {
    const RankEnd& end = *ranks_[rank].end();
    if (end.success() || as_asked(end) || killed_ || has_reported(rank)) continue;
    // Its peers see the connection close before we see its end, so their reports may be here already. Nobody
    // gets a SIGKILL that we did not send because of a peer: this rank is the cause.
    const bool overrules = cause_ >= 0 && end.signal == SIGKILL && has_reported(cause_);
    overruled_ |= overrules;
    if ((cause_ < 0 && !ending_) || overrules) cause_ = rank;
  }
  if (cause_ < 0 && !reports_.empty() && !killed_) cause_ = reports_.front().rank;
  if (undecided && cause_ >= 0) begin_ending();
}

bool Job::has_reported(int rank) const {
  return std::any_of(reports_.begin(), reports_.end(),
                     [&](const FailureReport& report) { return report.rank == rank; });
}

void Job::begin_ending() {
  ending_ = true;
  deadline_ = Clock::now() + kGrace;
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) {
    // One that reported is on its way out and shall keep its own exit code.
    if (i == cause_ || ranks_[i].end()) continue;
    ended_others_ = true;
    ranks_[i].signal(SIGTERM);
  }
}

void Job::kill_late_ranks() {
  if (!ending_ || Clock::now() < deadline_ || num_running() == 0) return;
  if (killed_) {
    gave_up_ = true;
    return;
  }
  killed_ = true;
  deadline_ = Clock::now() + kPatience;
  signal_all(SIGKILL);
}

int Job::finish() {
  for (RankProcess& rank : ranks_) rank.forward_errors();
  const bool failed = cause_ >= 0 || stop_signal_ != 0 || gave_up_;
  if (cause_ >= 0) explain();
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) {
    if (!ranks_[i].end())
      say(fmt::format("rank {} does not end although it was killed; it is left behind", i));
    ranks_[i].reap(failed);
  }
  if (stop_signal_ != 0) return 128 + stop_signal_;
  if (cause_ < 0) return 0;
  const std::optional<RankEnd>& end = ranks_[cause_].end();
  return end && !end->success() ? end->exit_code() : 1;
}

void Job::explain() const {
  // Interrupted, ranks that die of the signal take their peers with them: nothing of that is news.
  const auto died_of_it = [&](const RankProcess& rank) {
    return stop_signal_ != 0 && rank.end() && rank.end()->signal == stop_signal_;
  };
  if (std::any_of(ranks_.begin(), ranks_.end(), died_of_it)) return;

  const std::optional<RankEnd>& end = ranks_[cause_].end();
  const auto report = std::find_if(reports_.begin(), reports_.end(),
                                   [&](const FailureReport& r) { return r.rank == cause_; });
  std::string text;
  if (report != reports_.end()) {
    text = indented(failure_of_rank(cause_, report->text));
  } else if (end && end->signal != 0) {
    text = fmt::format("rank {} was killed by signal {} ({})", cause_, end->signal, signal_name(end->signal));
  } else {
    text = fmt::format("rank {} exited with code {}", cause_, end ? end->code : 1);
  }
  if (report == reports_.end() && ended_others_) text += "; the other ranks were ended";
  if (overruled_) {
    text +=
        fmt::format("\n      rank {} reported: {}", reports_.front().rank, indented(reports_.front().text));
  }
  const std::vector<std::string> lines = ranks_[cause_].last_lines();
  if (!lines.empty()) text += fmt::format("\n      last lines of rank {}:", cause_);
  for (const std::string& line : lines) text += "\n      | " + printable(line, 1000);
  say(text);
}

void Job::say(const std::string& text) const {
  write_error(fmt::format("weft: {}: {}\n", options_.verb, text));
}

int Job::num_running() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return !rank.end(); }));
}

}  // namespace weft::launch
