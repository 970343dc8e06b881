// PyTorch's own c10d::Reducer as the oracle: gradients of the same backward, and the buckets.
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "plugins/torch_ddp/layout.hpp"
#include "plugins/torch_ddp/support.hpp"
#include "train/training/recorder.hpp"

namespace weft::test {

namespace {

constexpr int64_t kMiB = 1 << 20;

std::vector<std::vector<size_t>> assignment(const std::vector<at::Tensor>& parameters, int64_t first,
                                            int64_t capacity) {
  const auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters, {static_cast<size_t>(first), static_cast<size_t>(capacity)});
  return {buckets.rbegin(), buckets.rend()};
}

c10::intrusive_ptr<c10d::ProcessGroup> process_group(const World& world, const std::string& file) {
  const auto store = c10::make_intrusive<c10d::FileStore>(file, world.size());
  const auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(store, world.rank(), world.size());
  group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::GLOO,
                    c10::make_intrusive<c10d::ProcessGroupGloo>(store, world.rank(), world.size(), options));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

// PyTorch's DistributedDataParallel without Python, around a model on one rank.
class Oracle {
 public:
  Oracle(const World& world, const std::string& file, Job& job, bool find_unused)
      : job_(job), find_unused_(find_unused) {
    std::vector<at::Tensor> parameters = job.model.module().parameters();
    const size_t count = parameters.size();
    reducer_ = std::make_shared<c10d::Reducer>(
        parameters, assignment(parameters, 64, 128), process_group(world, file),
        std::vector<bool>(count, false), 128, find_unused, false, std::unordered_map<size_t, std::string>(),
        64, false, false, std::vector<int64_t>());
  }

  void backward(const Batch& batch) {
    reducer_->prepare_for_forward();
    const at::Tensor loss = job_.model(batch).at("logits").square().mean();
    reducer_->prepare_for_backward(find_unused_ ? std::vector<at::Tensor>{loss} : std::vector<at::Tensor>());
    Booster({.strategy = "none", .precision = "fp64"}, one_rank()).backward(loss, job_.optimizer);
  }

 private:
  Job& job_;
  bool find_unused_;
  std::shared_ptr<c10d::Reducer> reducer_;
};

// Both average a loss of the caller's own over the ranks.
void expect_gradients_of_reducer(World& world, const std::string& file, bool gated_on_one_rank) {
  JobOptions plain;
  plain.precision = "fp64";
  const std::string keys = gated_on_one_rank ? "" : "\"gated\": false";
  Job alone = boost(one_rank(), toy(plain, keys), plain);
  Oracle oracle(world, file, alone, gated_on_one_rank);
  const JobOptions options = ddp("{\"bucket_cap_mb\": 0.0001, \"find_unused_parameters\": true}", "fp64");
  Job job = boost(world, toy(options, keys), options);
  Booster booster({.strategy = "torch_ddp"}, world);
  for (const int64_t step : {1, 2}) {
    const Batch batch = toy_batch(3, 10 * step + world.rank(), gated_on_one_rank && world.rank() == 1);
    oracle.backward(batch);
    booster.backward(job.model(batch).at("logits").square().mean(), job.optimizer);
    const Tensors expected = grad_fields_of(alone), actual = grad_fields_of(job);
    for (const auto& [name, gradient] : expected) {
      ASSERT_TRUE(gradient.defined()) << name;
      EXPECT_TRUE(is_near(actual.at(name), gradient, kGradientFp64)) << name << " in step " << step;
    }
    alone.optimizer.zero_grad();
    job.optimizer.zero_grad();
  }
}

TEST(Reducer, GivesTheGradientsOfPyTorch) {
  const TemporaryFolder folder;
  on_ranks({2}, [&](World& world) { expect_gradients_of_reducer(world, folder.path() + "/store", false); });
}

TEST(Reducer, GivesTheGradientsOfPyTorchWithUnusedParameters) {
  const TemporaryFolder folder;
  on_ranks({2}, [&](World& world) { expect_gradients_of_reducer(world, folder.path() + "/store", true); });
}

TEST(Buckets, AreThoseOfPyTorchsFirstAssignment) {
  for (const auto& [capacity, first] : std::vector<std::pair<int64_t, int64_t>>{
           {25 * kMiB, kMiB}, {kMiB / 4, kMiB / 4}, {0, 0}, {100, 100}, {3 * kMiB, kMiB}}) {
    const auto model = make_toy("\"blocks\": 6, \"width\": 300, \"vocab\": 500");
    std::vector<std::vector<std::string>> layout;
    const auto api = bucket_layout_strategy(capacity, &layout);
    const auto training = std::make_shared<Training>(one_rank(), model, api, "layout", std::vector<weft_kv>(),
                                                     TrainingOptions(), nullptr);
    std::vector<at::Tensor> parameters;
    for (const auto& param : training->bindings().params()) parameters.push_back(param->tensor);
    std::vector<std::vector<std::string>> expected;
    for (const std::vector<size_t>& bucket : assignment(parameters, first, capacity)) {
      expected.emplace_back();
      for (const size_t index : bucket) expected.back().push_back(training->bindings().params()[index]->name);
    }
    EXPECT_EQ(layout, expected) << capacity;
  }
}

}  // namespace

}  // namespace weft::test
