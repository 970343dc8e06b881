#include "command/stop_signals.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "comm/agreement.hpp"
#include "host/launch/rank_signals.hpp"

namespace weft::command {

namespace {

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int64_t kDoubledMs = 100;  // a process and its group signalled at once: that is one signal

std::atomic<bool>* stop_flag = nullptr;
std::atomic<int> stop_signal = 0;
std::atomic<int64_t> stop_time_ms = INT64_MAX;  // until the first signal has its time

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void on_signal(int signal, siginfo_t* info, void*) {
  int none = 0;
  if (stop_signal.compare_exchange_strong(none, signal)) {
    stop_time_ms = now_ms();
    stop_flag->store(true);
    report_stop_signal(signal, info->si_pid);
    return;
  }
  if (signal == SIGHUP || now_ms() - stop_time_ms < kDoubledMs) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

StopSignals::StopSignals(Job& job) {
  stop_flag = job.stop_requested.get();
  struct sigaction action {};
  action.sa_sigaction = &on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : kStopSignals) sigaddset(&action.sa_mask, signal);
  for (const int signal : kStopSignals)
    if (!is_ignored(signal)) sigaction(signal, &action, nullptr);
}

StopSignals::~StopSignals() {
  for (const int signal : kStopSignals)
    if (!is_ignored(signal)) ::signal(signal, SIG_DFL);
}

StopSignals::Stop StopSignals::agree(const World& world) {
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

}  // namespace weft::command
