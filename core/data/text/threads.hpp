// Work on many texts at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <thread>
#include <vector>

#include "base/signals.hpp"

namespace weft::data {

// Calls `action` with 0 ... count - 1, on several threads; 0: as many as the machine runs at once. Throws
// what a call throws, when all threads have ended.
template <class Action>
void on_threads(size_t count, int64_t threads, const Action& action) {
  const size_t wanted = threads > 0 ? static_cast<size_t>(threads) : std::thread::hardware_concurrency();
  std::atomic<size_t> next = 0;
  std::vector<std::future<void>> running;
  const BlockSignals in_new_threads;
  for (size_t i = 0; i < std::clamp<size_t>(wanted, 1, std::max<size_t>(count, 1)); ++i)
    running.push_back(std::async(std::launch::async, [&] {
      for (size_t at = next++; at < count; at = next++) action(at);
    }));
  for (std::future<void>& each : running) each.wait();
  for (std::future<void>& each : running) each.get();
}

}  // namespace weft::data
