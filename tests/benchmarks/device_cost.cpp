// Measures what the engine pays on the CPU for running on every device: the processor time of each question
// to core/runtime/device. Prints a line of JSON per question: nanoseconds per call, and how many calls are
// half a percent of a step of STEP milliseconds.
//   device_cost STEP
#include <ATen/ops/ones.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "device/autocast.hpp"
#include "device/stream.hpp"
#include "device/tensors.hpp"

namespace {

constexpr int kCalls = 1'000'000, kRounds = 5;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Returns the shortest of several rounds, in nanoseconds per call. `call` returns a number that depends on
// the answer, so that no call is left out.
template <class Call>
void measure(const char* name, double step_seconds, const Call& call) {
  double best = 1;
  volatile int64_t sink = 0;
  for (int round = 0; round < kRounds; ++round) {
    int64_t sum = 0;
    const double begin = processor_seconds();
    for (int i = 0; i < kCalls; ++i) sum += call();
    best = std::min(best, (processor_seconds() - begin) / kCalls);
    sink = sink + sum;
  }
  std::printf("{\"question\":\"%s\",\"nanoseconds\":%.2f,\"calls_of_half_a_percent\":%.0f}\n", name,
              1e9 * best, 0.005 * step_seconds / best);
}

}  // namespace

int main(int argc, char** argv) {
  const double step = argc == 2 ? 1e-3 * std::atof(argv[1]) : 0;
  if (!(step > 0)) {
    std::fprintf(stderr, "device_cost STEP, the milliseconds of a step\n");
    return 2;
  }
  namespace device = weft::device;
  const at::Tensor x = at::ones({4});
  const device::Stream side = device::Stream::make();
  device::Event event;
  measure("is_on_host", step, [&] { return device::is_on_host(x) ? 1 : 0; });
  measure("on_host", step, [&] { return device::on_host(x).numel(); });
  measure("holds", step, [&] { return device::current().holds(x) ? 1 : 0; });
  measure("autocast_dtype", step, [&] { return device::autocast_dtype() ? 1 : 0; });
  measure("record and wait", step, [&] {
    event.record();
    event.wait(side);
    return event.is_done() ? 1 : 0;
  });
  measure("OnStream", step, [&] {
    const device::OnStream on(side);
    return 1;
  });
  return 0;
}
