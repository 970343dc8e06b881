#include "host/signal_thread.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/signals.hpp"
#include "host/signals.h"

namespace weft::host {
namespace {

// Of begin(), for children: they have no signal thread, so they take signals as this process did before.
sigset_t mask_of_children;
bool children_reset_mask = false;

void reset_mask_in_child() {
  if (children_reset_mask) pthread_sigmask(SIG_SETMASK, &mask_of_children, nullptr);
}

}  // namespace

SignalThread& SignalThread::of_process() {
  static auto* const thread = new SignalThread;  // never destroyed: it runs until the process ends
  return *thread;
}

void SignalThread::begin() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kStopSignals)
    if (!is_ignored(number)) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  end_ = eventfd(0, EFD_CLOEXEC);
  try {
    if (signals_ < 0 || end_ < 0) throw std::system_error(errno, std::generic_category());
    const BlockSignals all;
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "weft-signals");
  } catch (const std::system_error&) {
    close(signals_);
    close(end_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    return;
  }
  static const int registered = pthread_atfork(nullptr, nullptr, reset_mask_in_child);
  mask_of_children = before_;
  children_reset_mask = registered == 0;
}

void SignalThread::end() {
  if (!runs()) return;
  eventfd_write(end_, 1);
  thread_.join();
  close(signals_);
  close(end_);
  children_reset_mask = false;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalThread::on_signal(Action action) {
  const std::lock_guard lock(acting_);
  action_ = std::move(action);
}

void SignalThread::run() {
  for (;;) {
    pollfd events[] = {{signals_, POLLIN, 0}, {end_, POLLIN, 0}};
    if (poll(events, 2, -1) < 0) continue;
    if (events[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signals_, &info, sizeof(info)) != sizeof(info)) continue;
    const auto number = static_cast<int>(info.ssi_signo);
    const std::lock_guard lock(acting_);
    if (action_)
      action_(number, static_cast<pid_t>(info.ssi_pid));
    else
      end_by_signal(number);
  }
}

}  // namespace weft::host

extern "C" {

void weft_signals_begin() {
  weft::host::SignalThread::of_process().begin();
}

void weft_signals_end() {
  weft::host::SignalThread::of_process().end();
}

uint32_t weft_signals_take(weft_signal_action action, void* context) {
  weft::host::SignalThread& thread = weft::host::SignalThread::of_process();
  if (!thread.runs()) return 0;
  weft::host::SignalThread::Action taken;
  if (action != nullptr) taken = [=](int number, pid_t sender) { action(context, number, sender); };
  thread.on_signal(std::move(taken));
  return 1;
}

}  // extern "C"
