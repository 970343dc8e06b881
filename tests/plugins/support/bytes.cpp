#include "plugins/support/bytes.hpp"

#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "booster/estimate.hpp"
#include "device/counting_allocator.hpp"
#include "device/device.hpp"
#include "memory/pools.hpp"

namespace weft::test {

namespace {

int64_t host_bytes() {
  return memory::pool_use(memory::Pool::kHost).used + memory::pool_use(memory::Pool::kPinned).used;
}

int64_t used_bytes() {
  const int64_t used = device::memory_use().used;
  return device::current().is_host() ? used : used + host_bytes();
}

}  // namespace

StateBytes state_bytes(const World& world, const JobOptions& options, const std::string& keys) {
  count_memory();
  const Batch batch = toy_batch(1, 1);
  const int64_t before = used_bytes(), host = host_bytes();
  Job job = boost(world, toy(options, keys), options, "adamw");
  StateBytes bytes;
  bytes.elements = static_cast<double>(job.model.num_elements());
  bytes.configured = used_bytes() - before;
  job.train_step(batch);
  device::reset_peak();
  job.accumulate_gradients(batch);
  bytes.peak = device::memory_use().peak - before;
  job.optimizer.step();
  bytes.held = used_bytes() - before;
  bytes.host = host_bytes() - host;
  job.optimizer.zero_grad();
  bytes.between = used_bytes() - before;
  return bytes;
}

void expect_estimate_is_counted(const World& world, const JobOptions& options, const std::string& keys) {
  const std::optional<weft_job_estimate> estimate =
      estimate_job(toy(options, keys), booster_options_of(options), world.size());
  ASSERT_TRUE(estimate) << options.strategy;
  const StateBytes counted = state_bytes(world, options, keys);
  const int64_t held = estimate->parameters + estimate->gradients + estimate->masters + estimate->states;
  EXPECT_NEAR(static_cast<double>(counted.held) / static_cast<double>(held), 1, 0.02) << options.options;
  const auto host = static_cast<double>(estimate->host);
  EXPECT_NEAR(static_cast<double>(counted.host), host, 0.02 * host) << options.options;

  Job job = boost(world, toy(options, keys), options, "adamw");
  for (int step = 0; step < 2; ++step) job.train_step(toy_batch(1, step));  // the first may differ
  const std::map<std::string, int64_t> sent = sent_bytes([&] { job.train_step(toy_batch(1, 2)); });
  std::map<std::string, int64_t> expected;
  for (const auto& [collective, bytes] :
       {std::pair{"all_reduce", estimate->sent_all_reduce},
        std::pair{"reduce_scatter", estimate->sent_reduce_scatter},
        std::pair{"all_gather", estimate->sent_all_gather}, std::pair{"broadcast", estimate->sent_broadcast}})
    if (bytes != 0) expected[collective] = bytes;
  EXPECT_EQ(sent, expected) << options.options;
}

std::map<std::string, int64_t> sent_bytes(const std::function<void()>& action) {
  const auto before = communicated_bytes();
  action();
  std::map<std::string, int64_t> sent;
  for (const auto& [collective, bytes] : communicated_bytes())
    if (collective != "control" && bytes != before.at(collective))
      sent[collective] = bytes - before.at(collective);
  return sent;
}

std::map<std::string, int64_t> layer_bytes(const Model& model, const JobOptions& options,
                                           const Batch& batch) {
  const plan::SentBytes counted = estimate_layers(model, booster_options_of(options), batch);
  std::map<std::string, int64_t> sent;
  for (size_t i = 0; i < counted.size(); ++i)
    if (counted[i] != 0) sent[plan::kCollectives[i]] = counted[i];
  return sent;
}

int64_t kernel_sent_bytes() {
  int64_t sent = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    tcp_info info{};
    socklen_t size = sizeof(info);
    const int descriptor = std::stoi(entry.path().filename());
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
      sent += static_cast<int64_t>(info.tcpi_bytes_sent - info.tcpi_bytes_retrans);
  }
  return sent;
}

namespace {

int64_t resident_bytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace

void expect_kernel_agrees(const World& world, const JobOptions& options) {
  count_memory();
  const Batch batch = toy_batch(1, 1);
  boost(world, toy(options, kEvenToy), options, "adamw").train_step(batch);  // code and tables are there now
  const int64_t resident = resident_bytes(), allocated = allocated_bytes();
  Job job = boost(world, toy(options, R"("gated": false, "blocks": 24, "width": 576, "vocab": 576)"), options,
                  "adamw");
  job.train_step(batch);
  world.communicator().barrier();  // nothing of it waits in the sockets any more
  const int64_t before = kernel_sent_bytes();
  int64_t counted = 0;
  for (const auto& [collective, bytes] : sent_bytes([&] { job.train_step(batch); })) counted += bytes;
  world.communicator().barrier();
  const auto sent = static_cast<double>(kernel_sent_bytes() - before);
  EXPECT_NEAR(sent / static_cast<double>(counted), 1, 0.05) << sent << " sent, counted " << counted;
  job.accumulate_gradients(batch);
  job.optimizer.step();
  const auto grown = static_cast<double>(resident_bytes() - resident);
  const auto held = static_cast<double>(allocated_bytes() - allocated);
  EXPECT_NEAR(grown / held, 1, 0.1) << options.strategy << " grew by " << grown << ", counted " << held;
  world.communicator().barrier();
}

}  // namespace weft::test
