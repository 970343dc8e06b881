#include "command/batch_size.hpp"

#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "base/host_memory.hpp"
#include "base/text.hpp"
#include "booster/chosen_strategy.hpp"
#include "booster/estimate.hpp"
#include "device/device.hpp"
#include "device/random.hpp"
#include "device/tensors.hpp"

namespace weft::command {

namespace {

// The share of the memory that tensors may take. The rest is for libraries and fragmentation.
constexpr double kShareOfTensors = 0.9;

int64_t bytes_between_steps(const weft_job_estimate& estimate) {
  return estimate.parameters + estimate.gradients + estimate.masters + estimate.states - estimate.host;
}

int64_t over_ranks(const World& world, int64_t value, ReduceOp op) {
  const at::Tensor number = at::tensor({value}, at::kLong);
  world.communicator().all_reduce(number, op, /*control=*/true).wait();
  return device::value_of<int64_t>(number);
}

class Search {
 public:
  Search(const Settings& arguments, const Booster& booster, Job& job,
         const std::optional<weft_job_estimate>& between)
      : world_(booster.world()), job_(job), between_(between) {
    const PipelineOptions pipeline = choose_strategy(booster.options()).host.pipeline;
    // As few samples as every pipeline stage can have.
    smallest_ = pipeline.num_micro_batches(1 << 20);
    if (pipeline.micro_batch_size) smallest_ = *pipeline.micro_batch_size * pipeline.size;
    parts_ = booster.data_size() * booster.options().accumulate;
    const data::Dataset& dataset = job.data.dataset();
    most_ = std::max(smallest_, dataset.size() / parts_ / smallest_ * smallest_);
    for (int64_t i = 0; i < dataset.size(); ++i)
      if (dataset.sample_length(i) > dataset.sample_length(longest_)) longest_ = i;
    limit_ = over_ranks(world_, memory(arguments), ReduceOp::kMin);
    const int64_t before = device::memory_use().used;
    if (arguments.given("ema")) job_.average_weights(arguments.real("ema"));
    average_ = device::memory_use().used - before;
  }

  // The size of the global batch.
  int64_t find() {
    const std::optional<int64_t> one = bytes(smallest_);
    if (!one || *one > limit_)
      fail(
          WEFT_RESOURCE_EXHAUSTED,
          "--auto-batch-size: a step with {} of the longest samples in each micro-batch of a rank takes {}, "
          "but a rank has {}; use a smaller --sequence-length or model, --recompute all, or more ranks under "
          "a strategy that shards",
          smallest_, one ? format_bytes(*one) : "more", format_bytes(limit_));
    int64_t samples = smallest_;
    std::optional<int64_t> need = one;
    if (2 * smallest_ <= most_)
      if (const std::optional<int64_t> two = bytes(2 * smallest_); two && *two <= limit_)
        samples = largest(*one, *two, need);
    world_.print_on_master(
        fmt::format("a step of {} samples takes {} of the {} that a rank has: {} in each micro-batch of each "
                    "data-parallel "
                    "rank{}",
                    samples * parts_, format_bytes(*need), format_bytes(limit_), samples,
                    samples == most_ ? ", and the data have no more" : ""));
    return samples * parts_;
  }

 private:
  // What this rank may hold.
  int64_t memory(const Settings& arguments) const {
    if (arguments.given("memory")) return parse_bytes(arguments.text("memory"), arguments.called("memory"));
    const device::MemoryUse use = device::memory_use();
    if (use.capacity) return static_cast<int64_t>(kShareOfTensors * static_cast<double>(*use.capacity));
    const int64_t available = available_host_memory() / std::max(1, world_.local_size());
    return use.used + static_cast<int64_t>(kShareOfTensors * static_cast<double>(available));
  }

  // Returns the most that a rank holds in a step with so many samples in each micro-batch, or nothing if its
  // memory ends. A failure of one rank among several would leave the others waiting, so it ends the job.
  std::optional<int64_t> bytes(int64_t samples) {
    const device::KeepRandomState keep;
    device::reset_peak();
    try {
      const std::vector<int64_t> rows(static_cast<size_t>(samples * job_.accumulate), longest_);
      job_.accumulate_gradients(job_.data.dataset().get(rows));
      device::synchronise();
    } catch (const c10::OutOfMemoryError&) {
      if (world_.size() > 1) throw;
      job_.optimizer.zero_grad();
      return std::nullopt;
    }
    const device::MemoryUse use = device::memory_use();
    job_.optimizer.zero_grad();
    // The first update of the parameters makes the states of the optimizer.
    const int64_t held = use.used - average_;
    const int64_t later =
        between_ ? std::clamp<int64_t>(bytes_between_steps(*between_) - held, 0, between_->states) : 0;
    return over_ranks(world_, use.peak + later, ReduceOp::kMax);
  }

  // Returns the largest number of samples in a micro-batch that fits, whose `need` it sets. Steps with the
  // smallest number and with twice as many need `one` and `two`.
  int64_t largest(int64_t one, int64_t two, std::optional<int64_t>& need) {
    const int64_t slope = std::max<int64_t>(1, two - one);
    int64_t samples = std::min(most_, smallest_ * (1 + (limit_ - one) / slope));
    while (samples > 2 * smallest_) {
      const std::optional<int64_t> found = bytes(samples);
      if (found && *found <= limit_) {
        need = found;
        return samples;
      }
      const int64_t too_many = found ? (*found - limit_ - 1) / slope + 1 : samples / smallest_ / 2;
      samples -= smallest_ * std::max<int64_t>(1, too_many);
    }
    need = two;
    return 2 * smallest_;
  }

  const World& world_;
  Job& job_;
  const std::optional<weft_job_estimate>& between_;
  int64_t smallest_ = 1, most_ = 1, parts_ = 1, longest_ = 0, limit_ = 0;
  int64_t average_ = 0;  // bytes of averaged weights
};

}  // namespace

std::optional<weft_job_estimate> memory_between_steps(const Model& model, const BoosterOptions& options,
                                                      int64_t world_size) {
  BoosterOptions without_autocast = options;
  without_autocast.mixed_precision.clear();  // which has the same parameters, gradients and states
  std::optional<weft_job_estimate> most;
  for (uint32_t stage = 0; stage < num_stages(options); ++stage) {
    const std::optional<weft_job_estimate> estimate =
        estimate_job(model, without_autocast, world_size, stage);
    if (estimate && (!most || bytes_between_steps(*estimate) > bytes_between_steps(*most))) most = estimate;
  }
  return most;
}

Settings with_fitting_batch(const Settings& arguments, const Booster& booster, Job& job,
                            const std::optional<weft_job_estimate>& between) {
  nlohmann::json given = arguments.all();
  given.erase("auto_batch_size");
  given.erase("memory");
  given["batch_size"] = Search(arguments, booster, job, between).find();
  return {arguments.user(), std::move(given), arguments.name()};
}

}  // namespace weft::command
