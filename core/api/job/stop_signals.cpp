#include "weft/stop_signals.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "base/signals.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "comm/job.hpp"
#include "host/launch/rank_signals.hpp"
#include "host/signals.h"
#include "parallel.hpp"

namespace weft {
namespace {

std::atomic<std::atomic<bool>*> stop_flag = nullptr;
std::atomic<int> stop_signal = 0;
std::atomic<int64_t> stop_time_ms = INT64_MAX;  // until the first signal has its time

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// Runs in the command's signal thread, or in a signal handler.
void take(int number, pid_t sender) {
  int none = 0;
  if (stop_signal.compare_exchange_strong(none, number)) {
    stop_time_ms = now_ms();
    if (std::atomic<bool>* const flag = stop_flag.load()) flag->store(true);
    report_stop_signal(number, sender);
    return;
  }
  if (number == SIGHUP || now_ms() - stop_time_ms < kDoubledSignalMs) return;
  end_by_signal(number);
}

void take_in_thread(void*, int32_t number, int64_t sender) {
  take(number, static_cast<pid_t>(sender));
}

void handle(int number, siginfo_t* info, void*) {
  take(number, info->si_pid);
}

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kStopSignals) sigaddset(&set, number);
  return set;
}

// The threads among which libtorch divides an operation of the calling thread run the code that a handler
// would destroy, and have no alternate stack.
void block_in_threads_of_operations() {
  const pthread_t caller = pthread_self();
  const sigset_t set = stop_set();
  kernels::parallel_for(0, kernels::parallel_parts(), 1, [&](int64_t, int64_t) {
    if (pthread_equal(pthread_self(), caller) == 0) pthread_sigmask(SIG_BLOCK, &set, nullptr);
  });
}

}  // namespace

// Of an application, whose threads are its own.
struct StopSignals::Handlers {
  Handlers() {
    stack_t stack{};
    sigaltstack(nullptr, &stack_before);
    if ((stack_before.ss_flags & SS_DISABLE) != 0) {
      // SIGSTKSZ of the C library is smaller than a frame with AVX-512 or AMX registers.
      const auto least = static_cast<size_t>(std::max<long>(sysconf(_SC_SIGSTKSZ), 1 << 16));
      memory = std::make_unique<std::byte[]>(least);
      stack.ss_sp = memory.get();
      stack.ss_size = least;
      sigaltstack(&stack, nullptr);
    }
    block_in_threads_of_operations();
    struct sigaction action {};
    action.sa_sigaction = &handle;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    action.sa_mask = stop_set();
    for (const int number : kStopSignals)
      if (!is_ignored(number)) sigaction(number, &action, &before.emplace_back(number, Action{}).second);
  }
  ~Handlers() {
    for (const auto& [number, action] : before) sigaction(number, &action, nullptr);
    if (memory) sigaltstack(&stack_before, nullptr);
  }
  Handlers(const Handlers&) = delete;

  using Action = struct sigaction;
  std::vector<std::pair<int, Action>> before;
  stack_t stack_before{};
  std::unique_ptr<std::byte[]> memory;
};

StopSignals::StopSignals(const Job& job) : flag_(job.stop_requested) {
  std::atomic<bool>* none = nullptr;
  if (!stop_flag.compare_exchange_strong(none, flag_.get()))
    fail(WEFT_FAILED_PRECONDITION,
         "stop signals: a job of this process has them already; end that object first");
  stop_signal = 0;
  stop_time_ms = INT64_MAX;
  if (weft_signals_take(&take_in_thread, nullptr) != 0) return;
  prepare_stop_reports(comm::own_rank());
  handlers_ = std::make_unique<Handlers>();
}

StopSignals::~StopSignals() {
  weft_signals_take(nullptr, nullptr);
  handlers_.reset();
  stop_flag = nullptr;
}

StopSignals::Stop StopSignals::agree(const World& world) const {
  const auto own = [] { return std::to_string(stop_signal.load()); };
  const std::vector<std::string> signals = gather_from_every_rank(world.communicator(), own);
  const auto is_signal = [](const std::string& text) { return text != "0"; };
  const auto first = std::find_if(signals.begin(), signals.end(), is_signal);
  if (first == signals.end()) return {SIGINT, "a request to stop"};
  const int number = std::stoi(*first);
  const auto is_first = [&](const std::string& text) { return text == *first; };
  if (std::all_of(signals.begin(), signals.end(), is_first)) return {number, signal_name(number)};
  return {number, fmt::format("{} to rank {}", signal_name(number), first - signals.begin())};
}

}  // namespace weft
