// A model divided without a Booster, trained by an optimizer and sums of the caller's own.
#include <weft/shard_former.hpp>

#include <fstream>

#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/sgd.h>

#include "base/files.hpp"
#include "files/format.hpp"
#include "policies/gpt2/gpt2_trial.hpp"
#include "policies/llama/llama_trial.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

const JobOptions kFp64 = {.precision = "fp64"};

Tensors whole_values(const std::string& folder) {
  const checkpoint::Reader reader(folder);
  Tensors values;
  for (size_t i = 0; i < reader.entries().size(); ++i)
    values[reader.entries()[i].name] = reader.checkpoint::TensorSource::read(i);
  return values;
}

struct Stepped {
  double loss = 0, norm = 0;
  Tensors values;  // whole, after a step with a rate of 1, so without the clipped gradient
};

// One step on this data-parallel rank's samples. `data`: the ranks whose gradients are averaged; null: this
// one.
Stepped step(ShardConfig config, const Trial& trial, const Communicator& data, const std::string& folder) {
  const Communicator tensor = config.tensor_parallel_group;
  const ShardedModel model = ShardFormer(std::move(config)).optimize(trial.model(kFp64));
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(1));
  const State outputs = model(trial.batch(0));
  outputs.at("loss").backward();
  Stepped result;
  at::Tensor loss = outputs.at("loss").detach().clone();
  if (data) {
    data.all_reduce(loss).wait();
    loss.div_(data.size());
    for (const at::Tensor& parameter : model.parameters()) {
      data.all_reduce(parameter.grad()).wait();
      parameter.grad().div_(data.size());
    }
  }
  result.loss = loss.item<double>();
  result.norm = model.clip_grad_by_norm(0.5);
  optimizer.step();
  if (!data || data.rank() == 0) {
    model.save(folder);
    if (!tensor || tensor.rank() == 0) result.values = whole_values(folder);
  }
  return result;
}

struct Grid {
  int tensor, data;
  const char* mode = "";
};

// `data` ranks that share the sequences of the same samples, or each have all of them.
void expect_step_of_one_rank(const Grid& grid, const Trial& trial) {
  SCOPED_TRACE(std::to_string(grid.tensor) + " x " + std::to_string(grid.data) + " " + grid.mode);
  const TemporaryFolder folder;
  const Stepped expected = step({}, trial, {}, folder.path() + "/alone");
  ASSERT_GT(expected.norm, 0.6) << "nothing would be clipped";
  on_ranks({grid.tensor * grid.data}, [&](World& world) {
    const std::string mode = grid.mode;
    ShardConfig config{.enable_sequence_parallelism = !mode.empty(), .sequence_parallelism_mode = mode};
    config.tensor_parallel_group = world.along({grid.data, grid.tensor}, {1});
    const Communicator data = world.along({grid.data, grid.tensor}, {0});
    if (mode == "all_to_all" || mode == "ring_attn") config.sequence_parallel_group = data;
    const Stepped found = step(config, trial, data, folder.path() + "/divided");
    EXPECT_NEAR(found.loss, expected.loss, 1e-12);
    EXPECT_NEAR(found.norm, expected.norm, 1e-10);
    if (world.rank() == 0) expect_near(found.values, expected.values, 1e-10);
    world.communicator().barrier();
  });
}

TEST(ShardFormer, TrainsAsOneRank) {
  const Trial gpt2 = gpt2_trial("GPT2LMHeadModel", "fp64");
  expect_step_of_one_rank({2, 1}, gpt2);
  expect_step_of_one_rank({2, 2}, gpt2);
  expect_step_of_one_rank({2, 1, "split_gather"}, gpt2);
  expect_step_of_one_rank({1, 2, "all_to_all"}, gpt2);
  expect_step_of_one_rank({2, 2, "ring_attn"}, gpt2);
  // Two heads of keys on four ranks.
  expect_step_of_one_rank({4, 1}, llama_trial({"LlamaForCausalLM", 2, true}, "fp64"));
  expect_step_of_one_rank({2, 1}, gpt2_trial("GPT2ForSequenceClassification", "fp64"));
}

TEST(ShardFormer, HasTheGradientsOfABooster) {
  const Trial trial = gpt2_trial("GPT2LMHeadModel", "fp64");
  Job job = boost(one_rank(), trial.model(kFp64), kFp64);
  const Tensors expected = gradients_of_step(job, trial.batch(0));
  const ShardedModel model = ShardFormer({}).optimize(trial.model(kFp64));
  model(trial.batch(0)).at("loss").backward();
  for (const auto& item : model.module().named_parameters())
    EXPECT_TRUE(is_near(item.value().grad(), expected.at(item.key()), 1e-10)) << item.key();
}

// The operations at the borders have first derivatives alone.
TEST(ShardFormer, RefusesGradientsOfGradients) {
  on_ranks({2}, [](World& world) {
    const ShardedModel model = ShardFormer({.tensor_parallel_group = world.communicator()})
                                   .optimize(gpt2_trial("GPT2LMHeadModel", "fp64").model(kFp64));
    const at::Tensor loss = model(gpt2_batch(2, 1)).at("loss");
    EXPECT_ERROR(torch::autograd::grad({loss}, {model.parameters().front()}, {}, /*retain_graph=*/true,
                                       /*create_graph=*/true),
                 WEFT_UNIMPLEMENTED, "second derivative");
  });
}

TEST(ShardFormer, KeepsWhatIsWholeAlikeUnderDropout) {
  on_ranks({2}, [](World& world) {
    const Batch batch = gpt2_batch(4, 3);
    torch::manual_seed(static_cast<uint64_t>(world.rank()));
    const ShardedModel model = ShardFormer({.tensor_parallel_group = world.communicator()})
                                   .optimize(tiny_gpt2(TinyGpt2{.width = 16, .heads = 4, .dropout = 0.3}));
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
    const auto loss_without_dropout = [&] {
      model.eval();
      const at::NoGradGuard no_grad;
      return model(batch).at("loss").item<double>();
    };
    const double before = loss_without_dropout();
    model.train();
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      model(batch).at("loss").backward();
      optimizer.step();
    }
    const at::Tensor bias = model.module().named_parameters()["transformer.h.1.mlp.c_proj.bias"].detach();
    const at::Tensor both = at::empty({2, bias.numel()});
    world.communicator().all_gather(both, bias).wait();
    EXPECT_TRUE(both[0].equal(both[1]));
    EXPECT_GT(both[0].abs().max().item<double>(), 0);
    EXPECT_LT(loss_without_dropout(), before);
  });
}

TEST(ShardFormer, RefusesRanksWithOtherSeeds) {
  on_ranks({2}, [](World& world) {
    const ShardFormer former({.tensor_parallel_group = world.communicator(), .seed = world.rank()});
    EXPECT_ERROR(former.optimize(tiny_gpt2(TinyGpt2{.width = 16, .heads = 4})), WEFT_FAILED_PRECONDITION,
                 "seed: rank 0 has 0, rank 1 has 1");
  });
}

TEST(ShardFormer, FailsOnEveryRankIfOneHasNoPolicy) {
  on_ranks({4}, [](World& world) {
    ShardConfig config{.tensor_parallel_group = world.along({2, 2}, {1}),
                       .sequence_parallel_group = world.along({2, 2}, {0}),
                       .enable_sequence_parallelism = true};
    if (world.rank() == 1) config.custom_policy = "/nowhere/policy.json";
    EXPECT_ERROR(ShardFormer(config).optimize(tiny_gpt2(TinyGpt2{.width = 16, .heads = 4})), WEFT_NOT_FOUND,
                 "custom_policy", "/nowhere/policy.json");
  });
}

TEST(ShardFormer, RefusesWhatDoesNotGoTogether) {
  EXPECT_ERROR(ShardFormer({.make_vocab_size_divisible_by = 0}), WEFT_INVALID_ARGUMENT, "at least 1");
  EXPECT_ERROR(ShardFormer({.sequence_parallelism_mode = "ring"}), WEFT_INVALID_ARGUMENT,
               "enable_sequence_parallelism is false");
  EXPECT_ERROR(ShardFormer({.enable_sequence_parallelism = true}), WEFT_INVALID_ARGUMENT, "all_to_all",
               "which is 1");
  EXPECT_ERROR(ShardFormer({.enable_sequence_parallelism = true, .sequence_parallelism_mode = "rings"}),
               WEFT_INVALID_ARGUMENT, "\"rings\", must be split_gather, ring, all_to_all or ring_attn");
  EXPECT_ERROR(ShardFormer({.enable_flash_attention = false}).optimize(toy()), WEFT_UNIMPLEMENTED,
               "enable_flash_attention is false", "ToyModel");
}

// A checkpoint that is cut short.
TEST(ShardFormer, LeavesTheModelAsItWasIfItFails) {
  const TemporaryFolder folder;
  ShardFormer({}).optimize(tiny_gpt2()).save(folder.path() + "/saved");
  const Model model = Model::open(folder.path() + "/saved");
  const std::string weights = folder.path() + "/saved/model.safetensors";
  const std::string whole = read_file(weights, 1 << 20);
  const auto write = [&](const std::string& bytes) { std::ofstream(weights, std::ios::binary) << bytes; };
  write(whole.substr(0, whole.size() / 2));
  EXPECT_ERROR(ShardFormer({}).optimize(model), WEFT_DATA_LOSS, "model.safetensors");
  for (const auto& item : model.module().named_parameters())
    EXPECT_TRUE(item.value().is_meta()) << item.key();
  write(whole);
  const ShardedModel read = ShardFormer({}).optimize(model);
  EXPECT_GT(read(gpt2_batch(2, 1)).at("loss").item<double>(), 0);
}

TEST(ShardFormer, DividesAModelOnce) {
  const Model model = tiny_gpt2();
  const ShardedModel divided = ShardFormer({}).optimize(model);
  EXPECT_ERROR(ShardFormer({}).optimize(model), WEFT_FAILED_PRECONDITION, "divided already");
  EXPECT_ERROR(Booster({.strategy = "none"}, one_rank()).boost(model), WEFT_FAILED_PRECONDITION,
               "by ShardFormer");
  EXPECT_ERROR(divided.save("/tmp/never", {.background = true}), WEFT_UNIMPLEMENTED, "background");
  EXPECT_ERROR(divided.clip_grad_by_norm(0), WEFT_INVALID_ARGUMENT, "be positive");
  Batch none = gpt2_batch(2, 1);
  none.at("labels").fill_(-100);
  EXPECT_ERROR(divided(none), WEFT_INVALID_ARGUMENT, "no label");
}

}  // namespace

}  // namespace weft::test
