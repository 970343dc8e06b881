#include "plugins/support/bytes.hpp"

#include "memory/counting_allocator.hpp"

namespace weft::test {

StateBytes state_bytes(const World& world, const JobOptions& options, const std::string& keys) {
  count_memory();
  const Batch batch = toy_batch(1, 1);
  const int64_t before = allocated_bytes();
  Job job = boost(world, toy(options, keys), options, "adamw");
  StateBytes bytes;
  bytes.elements = static_cast<double>(job.model.num_elements());
  bytes.configured = allocated_bytes() - before;
  job.train_step(batch);
  reset_peak_allocated_bytes();
  job.accumulate_gradients(batch);
  bytes.peak = peak_allocated_bytes() - before;
  job.optimizer.step();
  bytes.held = allocated_bytes() - before;
  job.optimizer.zero_grad();
  bytes.between = allocated_bytes() - before;
  return bytes;
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

}  // namespace weft::test
