// Pipeline stages of unusual models and gradients: without parameters, without anything to train, without
// differentiable inputs, with an overflow on one stage.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <weft/nn/layers.hpp>
#include <weft/nn/row_labels.hpp>

#include <limits>

#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

// Three units, each a stage of three: an embedding, a layer and a head, in fp64. Batches are those of the toy
// model.
class Chain final : public nn::Model {
 public:
  struct Options {
    std::string frozen;        // the unit whose parameters are
    bool begins_late = false;  // the first unit only makes integers, which the second one embeds
    bool biased = false;       // the second unit adds the batch's "bias" (B, T, C)
  };

  explicit Chain(Options options) : Model(Config()), options_(std::move(options)) {
    static constexpr int64_t kVocabulary = 13, kWidth = 6;
    const auto embedding = std::make_shared<nn::Embedding>(kVocabulary, kWidth, at::kDouble);
    if (options_.begins_late) {
      units_.push_back(nn::make_unit("first", {}, [](State& state) {
        state.set("shifted", (state.at("ids") + 1).remainder(kVocabulary));
        state.erase("ids");
      }));
      register_module("second", embedding);
      units_.push_back(nn::make_unit("second", {embedding.get()}, [e = embedding.get()](State& state) {
        state.set("x", (*e)(state.at("shifted")));
        state.erase("shifted");
      }));
    } else {
      register_module("first", embedding);
      units_.push_back(nn::make_unit("first", {embedding.get()}, [e = embedding.get()](State& state) {
        state.set("x", (*e)(state.at("ids")));
        state.erase("ids");
      }));
      const auto layer = std::make_shared<nn::Linear>(kWidth, kWidth, true, at::kDouble);
      register_module("second", layer);
      units_.push_back(nn::make_unit("second", {layer.get()}, [l = layer.get()](State& state) {
        at::Tensor x = state.at("x") + (*l)(state.at("x")).tanh();
        if (const at::Tensor* const bias = state.find("bias")) x = x + *bias;
        state.set("x", x);
        state.erase("bias");
      }));
    }
    const auto head = std::make_shared<nn::Linear>(kWidth, kVocabulary, false, at::kDouble);
    register_module("third", head);
    units_.push_back(nn::make_unit("third", {head.get()}, [h = head.get()](State& state) {
      state.set("logits", (*h)(state.at("x")));
      state.erase("x");
    }));
  }

  std::string architecture() const override { return "Chain"; }
  std::vector<nn::Unit*> units() override { return {units_[0].get(), units_[1].get(), units_[2].get()}; }
  State input(const Batch& batch) const override {
    State state = {{"ids", batch.at("ids")}};
    if (options_.biased) state.set("bias", batch.at("bias"));
    return state;
  }
  std::vector<nn::LossTerm> loss(const State& last, const Batch& batch) const override {
    return {{"loss", 1, nn::RowLabels{batch.at("labels")}.cross_entropy(last.at("logits"))}};
  }
  std::vector<nn::LossCount> counts(const Batch& batch) const override {
    return {{"loss", nn::RowLabels{batch.at("labels")}.count()}};
  }
  State outputs(const State& last) const override { return {{"logits", last.at("logits")}}; }
  std::vector<nn::FieldShape> boundary(const Batch& batch, size_t index) const override {
    const std::vector<int64_t> positions = batch.at("ids").sizes().vec();
    const std::vector<int64_t> hidden = {positions[0], positions[1], 6};
    std::vector<nn::FieldShape> fields;
    if (index == 0)
      fields.push_back({.name = "ids",
                        .shape = positions,
                        .dtype = at::kLong,
                        .differentiable = false,
                        .from_input = true});
    else if (index == 1 && options_.begins_late)
      fields.push_back({"shifted", positions, at::kLong, false});
    else
      fields.push_back({"x", hidden, at::kDouble, true});
    if (options_.biased && index < 2)
      fields.push_back({.name = "bias",
                        .shape = hidden,
                        .dtype = at::kDouble,
                        .differentiable = true,
                        .from_input = true});
    return fields;
  }
  nn::Initial initial(std::string_view) const override { return nn::Initial::normal(0, 0.4); }
  bool frozen(std::string_view parameter) const override {
    return !options_.frozen.empty() && parameter.starts_with(options_.frozen + ".");
  }

 private:
  const Options options_;
  std::vector<std::unique_ptr<nn::Unit>> units_;
};

Batch chain_batch(int64_t seed, bool biased) {
  Batch batch = toy_batch(7, seed, false);
  batch.erase("kinds");
  if (biased) batch.set("bias", at::linspace(-1, 1, 7 * 5 * 6, at::kDouble).view({7, 5, 6}));
  return batch;
}

std::vector<Case> chain_cases(uint32_t stages) {
  std::vector<Case> cases;
  for (const char* strategy : {"torch_ddp", "low_level_zero", "hybrid_parallel"})
    for (const Chain::Options& options :
         {Chain::Options{.frozen = "first"}, Chain::Options{.frozen = "second"},
          Chain::Options{.frozen = "third"}, Chain::Options{.begins_late = true},
          Chain::Options{.biased = true}}) {
      const Trial trial = {
          .model = [options](const JobOptions&) { return Model::adopt(std::make_shared<Chain>(options)); },
          .batch = [biased = options.biased](int64_t step) { return chain_batch(step, biased); }};
      const std::string zero = strategy == std::string("hybrid_parallel") ? R"(, "zero_stage": 1)" : "";
      cases.push_back({{.strategy = strategy,
                        .options = fmt::format(R"({{"pp_size": {}, "num_microbatches": 3{}}})", stages, zero),
                        .recompute = options.biased ? "all" : "off",
                        .precision = "fp64"},
                       trial,
                       fmt::format("frozen \"{}\", late {}, biased {}", options.frozen, options.begins_late,
                                   options.biased)});
    }
  return cases;
}

TEST(PipelineModels, MayHaveStagesWithoutParametersGradientsAndDifferentiableInputs) {
  expect_gradients_of_one_rank(chain_cases(3), 3);
  expect_gradients_of_one_rank(chain_cases(2), 4);
}

// It is the caller's, and the same one in every step.
WEFT_RANKS_TEST(PipelineModels, LeaveTheTensorsOfTheBatchAsTheyAre, 3) {
  const JobOptions options = {
      .strategy = "torch_ddp", .options = R"({"pp_size": 3, "num_microbatches": 1})", .precision = "fp64"};
  Job job = boost(world, Model::adopt(std::make_shared<Chain>(Chain::Options{.biased = true})), options);
  const Batch batch = chain_batch(1, true);
  for (int step = 0; step < 2; ++step) job.train_step(batch);
  for (const auto& [name, tensor] : batch) {
    EXPECT_FALSE(tensor.requires_grad()) << name;
    EXPECT_FALSE(tensor.grad().defined()) << name;
  }
}

// Wherever the overflow is, no stage updates, and all keep the same scale.
WEFT_RANKS_TEST(PipelineModels, SkipTheUpdateAfterAnOverflowOnOneStage, 2) {
  const std::vector<JobOptions> layouts = {{.strategy = "torch_ddp",
                                            .options = R"({"pp_size": 2})",
                                            .mixed_precision = R"({"name": "fp16", "init_scale": 1024})"},
                                           {.strategy = "low_level_zero",
                                            .options = R"({"pp_size": 2, "initial_scale": 1024})",
                                            .precision = "fp16"}};
  for (const JobOptions& options : layouts) {
    for (const uint32_t stage : {0u, 1u}) {
      SCOPED_TRACE(fmt::format("{} stage {}", options.strategy, stage));
      Job job = boost(world, tiny_gpt2(options.precision), options);
      Bindings& bindings = job.model.shared().bindings();
      ASSERT_GT(bindings.loss_scale(), 1);
      const Tensors before = published_values(job);
      job.accumulate_gradients(gpt2_batch(4, 1));
      if (bindings.mesh().place(Mesh::stages()).rank == stage) {
        for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK)) {
          if (!shard.gradient.defined() || shard.counted_count == 0) continue;
          at::Tensor(shard.gradient).fill_(std::numeric_limits<double>::infinity());
          break;
        }
      }
      EXPECT_FALSE(job.optimizer.step());
      job.optimizer.zero_grad();
      expect_equal(published_values(job), before);
      const at::Tensor scales = at::tensor({bindings.loss_scale(), -bindings.loss_scale()}, at::kDouble);
      world.communicator().all_reduce(scales, ReduceOp::kMax).wait();
      EXPECT_EQ(scales[0].item<double>(), -scales[1].item<double>());
      // The next step is one again.
      job.accumulate_gradients(gpt2_batch(4, 2));
      EXPECT_TRUE(job.optimizer.step());
      EXPECT_FALSE(
          published_values(job).at("transformer.wte.weight").equal(before.at("transformer.wte.weight")));
    }
  }
}

// The norm counts the parameters of every stage once, the tied one too, under tensor parallelism and ZeRO.
TEST(PipelineModels, HaveTheGradientNormsOfOneRank) {
  const Batch batch = gpt2_batch(7, 1);
  std::vector<double> expected;
  const TinyGpt2 divisible = {.precision = "fp64", .heads = 4};
  Job alone = boost(one_rank(), tiny_gpt2(divisible), JobOptions{.precision = "fp64"});
  alone.accumulate_gradients(batch);
  const std::vector<double> types = {2, 1, std::numeric_limits<double>::infinity()};
  for (const double type : types) expected.push_back(alone.optimizer.clip_grad_by_norm(1e9, type));
  on_ranks({4}, [&](World& world) {
    for (const char* options :
         {R"({"pp_size": 2, "tp_size": 2})", R"({"pp_size": 2, "zero_stage": 1})", R"({"pp_size": 4})"}) {
      SCOPED_TRACE(options);
      Job job = boost(world, tiny_gpt2(divisible),
                      {.strategy = "hybrid_parallel", .options = options, .precision = "fp64"});
      job.accumulate_gradients(own_part(batch, job));
      for (size_t i = 0; i < types.size(); ++i)
        EXPECT_NEAR(job.optimizer.clip_grad_by_norm(1e9, types[i]), expected[i], 1e-10 * expected[i]);
    }
    world.communicator().barrier();
  });
}

// Of hidden states. Attention drops heads of its own on each tensor-parallel rank.
TEST(PipelineModels, DropTheHiddenElementsThatOneRankDrops) {
  const auto model = [](const JobOptions& options) {
    const TemporaryFolder folder;
    folder.file("config.json", R"({"model_type": "gpt2", "vocab_size": 23, "n_positions": 9, "n_embd": 12,
        "n_head": 4, "n_layer": 2, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0,
        "initializer_range": 0.3})");
    return Model::open(folder.path() + "/config.json", "GPT2LMHeadModel", options.precision);
  };
  const Trial trial = {.model = model};
  std::vector<Case> on_2, on_4;
  for (const char* style : {"1f1b", "gpipe"})
    for (const char* recompute : {"off", "all"}) {
      const auto add = [&](std::vector<Case>& cases, const char* axes) {
        cases.push_back(
            {{.strategy = "hybrid_parallel",
              .options = fmt::format(R"({{{}, "pp_style": "{}", "num_microbatches": 1}})", axes, style),
              .recompute = recompute,
              .accumulate = 3,
              .precision = "fp64"},
             trial,
             "dropout"});
      };
      add(on_2, R"("pp_size": 2)");
      add(on_4, R"("pp_size": 4)");
      add(on_4, R"("pp_size": 2, "tp_size": 2)");
    }
  expect_gradients_of_one_rank(on_2, 2);
  expect_gradients_of_one_rank(on_4, 4);
}

}  // namespace

}  // namespace weft::test
