// A test on the simulated device. What the device found and the test did not expect fails it.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/sim_device.hpp"

namespace weft::sim {

class SimTest : public testing::Test {
 protected:
  void SetUp() override {
    install();
    synchronise();
    take_reports();
    reset_counters();
  }
  void TearDown() override {
    for (const std::string& line : take_reports()) ADD_FAILURE() << "reported: " << line;
  }

  static at::TensorOptions floats() { return at::TensorOptions(device()).dtype(at::kFloat); }
  static at::TensorOptions pinned() { return at::TensorOptions().dtype(at::kFloat).pinned_memory(true); }
};

// Expects that the reports since the last call are lines that contain these texts, in this order.
inline void expect_reports(const std::vector<std::string>& parts) {
  const std::vector<std::string> lines = take_reports();
  EXPECT_EQ(lines.size(), parts.size()) << testing::PrintToString(lines);
  for (size_t i = 0; i < std::min(lines.size(), parts.size()); ++i)
    EXPECT_NE(lines[i].find(parts[i]), std::string::npos) << lines[i];
}

// Expects that `action` throws with a text that contains `part`.
template <class Action>
void expect_throw(const std::string& part, Action action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown, expected: " << part;
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// Orders `later` behind what `earlier` has been given.
inline void order(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event(c10::kPrivateUse1);
  event.record(earlier);
  event.block(later);
}

}  // namespace weft::sim
