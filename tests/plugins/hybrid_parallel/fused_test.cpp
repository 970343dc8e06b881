// A model whose q, k and v are one layer, side by side or interleaved, with fewer heads of keys than of
// queries and than ranks, under a policy that is a file.
#include "base/text.hpp"
#include "plugins/support/parity.hpp"
#include "support/temporary_folder.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/rotary.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::test {

namespace {

constexpr int64_t kWidth = 24, kHeadSize = 8, kInner = 20, kVocabulary = 23;

struct Fused {
  const char* name;
  int64_t heads, key_heads;
  bool interleaved = false;
};

class FusedAttention final : public nn::Attention {
 public:
  FusedAttention(const Fused& fused, at::ScalarType dtype)
      : num_heads(fused.heads), num_key_value_heads(fused.key_heads), interleaved_(fused.interleaved) {
    const auto linear = [&](const char* name, int64_t in, int64_t out) {
      return register_module(name, std::make_shared<nn::Linear>(in, out, true, dtype));
    };
    qkv = linear("qkv", kWidth, (fused.heads + 2 * fused.key_heads) * kHeadSize);
    out = linear("out", fused.heads * kHeadSize, kWidth);
  }
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}, {"num_key_value_heads", &num_key_value_heads}};
  }
  at::Tensor operator()(const at::Tensor& x) const {
    const int64_t groups = interleaved_ ? num_key_value_heads : 1;
    // (B, T, groups, heads of a group, D): those of queries, then of keys, then of values.
    const at::Tensor heads = (*qkv)(x).unflatten(-1, {groups, -1, kHeadSize});
    const auto parts = heads.split_with_sizes(
        {num_heads / groups, num_key_value_heads / groups, num_key_value_heads / groups}, 3);
    nn::AttentionOptions options;
    options.causal = true;
    const at::Tensor q = rotary_(parts[0].flatten(2, 3), {}), k = rotary_(parts[1].flatten(2, 3), {});
    return (*out)(attend(q, k, parts[2].flatten(2, 3), {}, options));
  }

  int64_t num_heads, num_key_value_heads;  // of this part of the layer
  std::shared_ptr<nn::Linear> qkv, out;

 private:
  const bool interleaved_;
  const nn::Rotary rotary_{{}, kHeadSize};  // without positions biases of keys would change nothing
};

struct FusedBlock final : torch::nn::Module {
  FusedBlock(const Fused& fused, at::ScalarType dtype) {
    const auto norm = [&] { return std::make_shared<nn::LayerNorm>(kWidth, 1e-5, dtype); };
    norm_1 = register_module("norm_1", norm());
    norm_2 = register_module("norm_2", norm());
    attention = register_module("attention", std::make_shared<FusedAttention>(fused, dtype));
    gate_up = register_module("gate_up", std::make_shared<nn::Linear>(kWidth, 2 * kInner, false, dtype));
    down = register_module("down", std::make_shared<nn::Linear>(kInner, kWidth, false, dtype));
  }
  at::Tensor operator()(const at::Tensor& x) const {
    const at::Tensor attended = x + (*attention)((*norm_1)(x));
    const std::vector<at::Tensor> parts = (*gate_up)((*norm_2)(attended)).chunk(2, -1);
    return attended + (*down)(parts[0].tanh() * parts[1]);
  }
  std::shared_ptr<nn::LayerNorm> norm_1, norm_2;
  std::shared_ptr<FusedAttention> attention;
  std::shared_ptr<nn::Linear> gate_up, down;
};

class FusedModel final : public nn::TokenStackModel {
 public:
  FusedModel(const Fused& fused, at::ScalarType dtype)
      : TokenStackModel(Config::parse("{}", "fused"), {"FusedModel", "", kWidth, dtype},
                        {.vocabulary = kVocabulary, .positions = 9, .positions_key = "positions"}) {
    const auto embed = register_module("embed", std::make_shared<nn::Embedding>(kVocabulary, kWidth, dtype));
    const auto list = register_module("blocks", std::make_shared<torch::nn::Module>("blocks"));
    std::vector<std::unique_ptr<nn::Unit>> units;
    for (const char* name : {"0", "1"}) {
      const auto block = list->register_module(name, std::make_shared<FusedBlock>(fused, dtype));
      units.push_back(nn::make_unit(
          std::string("blocks.") + name, {block.get()},
          [block = block.get()](State& state) { state.set(nn::kHidden, (*block)(state.at(nn::kHidden))); }));
    }
    const auto norm = register_module("norm", std::make_shared<nn::LayerNorm>(kWidth, 1e-5, dtype));
    nn::LanguageHead::Options head = {kWidth, kVocabulary, dtype};
    assemble(nn::make_unit("prologue", {embed.get()},
                           [embed = embed.get()](State& state) {
                             state.set(nn::kHidden, (*embed)(nn::take(state, nn::kInputIds)));
                           }),
             std::move(units), nn::last_layer(norm), std::make_unique<nn::LanguageHead>(*this, head));
  }
  nn::Initial initial(std::string_view parameter) const override {
    if (parameter.find("norm") != std::string_view::npos && parameter.ends_with("weight"))
      return nn::Initial::constant(1);
    return nn::Initial::normal(0, 0.3);
  }
};

Model fused_model(const Fused& fused, const std::string& precision) {
  return Model::adopt(std::make_shared<FusedModel>(fused, precision_dtype(precision)));
}

// A job's options on `tensor` ranks; the policy's file lives as long as this.
class FusedJob {
 public:
  FusedJob(const Fused& fused, int64_t tensor) : fused_(fused), tensor_(tensor) {
    policy_ = folder_.file("policy.json", fmt::format(R"({{"name": "fused", "entries": [
  {{"on": "embed", "operation": "weft.embedding_vocab/1"}},
  {{"on": "blocks.*.attention.qkv", "operation": "weft.linear_column/1",
   "fused": 3, "heads": {0}, "key_heads": {1}, "interleaved": {2}}},
  {{"on": "blocks.*.attention.out, blocks.*.down", "operation": "weft.linear_row/1"}},
  {{"on": "blocks.*.gate_up", "operation": "weft.linear_column/1", "fused": 2}},
  {{"on": "lm_head", "operation": "weft.linear_vocab/1", "parallel_output": "parallel_output"}},
  {{"divide": "blocks.*.attention", "attribute": "num_heads", "by": "tensor_size"}},
  {{"divide": "blocks.*.attention", "attribute": "num_key_value_heads", "by": {3}}}]}})",
                                                      fused.heads, fused.key_heads, fused.interleaved,
                                                      std::min(tensor, fused.key_heads)));
  }
  JobOptions options(const std::string& precision, const std::string& strategy = "hybrid_parallel") const {
    return {.strategy = strategy,
            .options = fmt::format(R"({{"tp_size": {}, "custom_policy": "{}"}})", tensor_, policy_),
            .precision = precision};
  }
  Trial trial(const std::string& precision) const {
    return {.tolerance = precision == "fp64" ? 1e-10 : 5e-5,
            .model =
                [fused = fused_](const JobOptions& options) { return fused_model(fused, options.precision); },
            .batch = [](int64_t step) { return gpt2_batch(6, step); }};
  }

 private:
  const TemporaryFolder folder_;
  const Fused fused_;
  const int64_t tensor_;
  std::string policy_;
};

constexpr Fused kGrouped = {"Grouped", 8, 2}, kInterleaved = {"Interleaved", 8, 2, true},
                kMultiQuery = {"MultiQuery", 4, 1}, kByHead = {"ByHead", 4, 4, true};

class FusedLayers : public testing::TestWithParam<Fused> {};

TEST_P(FusedLayers, HaveTheGradientsOfOneRank) {
  for (const int ranks : {2, 4}) {
    const FusedJob job(GetParam(), ranks);
    std::vector<Case> cases;
    for (const char* precision : {"fp32", "fp64"})
      cases.push_back({job.options(precision), job.trial(precision)});
    expect_gradients_of_one_rank(cases, ranks);
  }
}

// The norm counts each feature once.
TEST_P(FusedLayers, TrainAsOneRankClippedByTheNorm) {
  for (const int ranks : {2, 4}) {
    const FusedJob job(GetParam(), ranks);
    JobOptions options = job.options("fp64");
    options.max_grad_norm = 0.05;
    expect_steps_of_one_rank(options, {ranks}, job.trial("fp64"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FusedLayers, testing::Values(kGrouped, kInterleaved, kMultiQuery, kByHead),
                         [](const auto& info) { return std::string(info.param.name); });

Tensors values_after_steps(const World& world, const JobOptions& options, const std::string& rule) {
  const Model model = fused_model(kInterleaved, options.precision);
  optim::Hyper hyper = {{"lr", 1e-2}};
  if (optim::rule(rule)->defaults().contains("eps")) hyper["eps"] = 1e-4;
  Job job = boost(world, model, options, optim::Optimizer(rule, {{model.parameters(), hyper}}));
  for (int64_t step = 0; step < 2; ++step) job.train_step(gpt2_batch(4, step));
  return published_values(job);
}

// Those that scale by the norm of a tensor or of its rows and columns.
TEST(FusedLayers, HaveEveryFeatureCountedOnceByTheRules) {
  const FusedJob job(kInterleaved, 4);
  for (const char* rule : {"lars", "lamb", "adafactor", "came"}) {
    SCOPED_TRACE(rule);
    const Tensors expected = values_after_steps(one_rank(), {.precision = "fp64"}, rule);
    on_ranks({4}, [&](World& world) {
      expect_near(values_after_steps(world, job.options("fp64"), rule), expected, 1e-9);
    });
  }
}

TEST(FusedLayers, TrainUnderEveryStrategyWithSharedHeads) {
  const FusedJob job(kMultiQuery, 2);
  std::vector<Case> cases;
  for (const char* strategy : {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"})
    cases.push_back({job.options("fp64", strategy), job.trial("fp64")});
  expect_gradients_of_one_rank(cases, 4);
}

// Saved by several ranks, gone on with by one.
TEST(FusedLayers, AreSavedAsOneRankSavesThem) {
  for (const auto& layout : {std::pair(kGrouped, 2), std::pair(kMultiQuery, 2), std::pair(kInterleaved, 4)}) {
    const Fused& fused = layout.first;
    const int ranks = layout.second;
    SCOPED_TRACE(fused.name);
    const FusedJob job(fused, ranks);
    const TemporaryFolder folder;
    const auto step = [&](Job& training, int64_t index) { training.train_step(gpt2_batch(6, index)); };
    on_ranks({ranks}, [&](World& world) {
      Job training = boost(world, fused_model(fused, "fp64"), job.options("fp64"), "adamw");
      step(training, 0);
      Booster booster({}, world);
      booster.save_training(training, folder.path() + "/saved");
      const Tensors values = published_values(training);
      // What one rank reads is bitwise what the ranks hold.
      Job alone = boost(one_rank(), fused_model(fused, "fp64"), {.precision = "fp64"}, "adamw");
      Booster({}, one_rank()).load_training(alone, folder.path() + "/saved");
      expect_equal(published_values(alone), values);
      step(training, 1);
      step(alone, 1);
      expect_near(published_values(training), published_values(alone), 1e-10);
      world.communicator().barrier();
    });
  }
}

}  // namespace

}  // namespace weft::test
