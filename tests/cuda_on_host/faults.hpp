// Kernels that are wrong, each in one way.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::testing {

constexpr int kFaultThreads = 96;

struct Fault {
  const char* name;
  void (*kernel)(const float* in, float* out);  // out[i] = the sum of `in`, or in[i], depending on `sums`
  bool sums;
  size_t shared_bytes = 0;
};
const std::vector<Fault>& faults();

// Runs the fault as a test would run a kernel: in each order of threads, with its results compared between
// the orders and with a sum in double. Returns what is wrong, or nothing if nothing was found. Races and
// accesses out of bounds can end the process instead.
std::string found_in(const Fault& fault);

}  // namespace weft::testing
