// torch_ddp on several ranks against one rank on the same global batch.
#include <weft/data/dataset.hpp>

#include "plugins/torch_ddp/support.hpp"

namespace weft::test {

namespace {

constexpr const char* kGpt2 =
    R"({"model_type": "gpt2", "vocab_size": 23, "n_positions": 9, "n_embd": 12, "n_head": 3, "n_layer": 2,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "summary_first_dropout": 0.0,
        "initializer_range": 0.3, "num_labels": 3, "pad_token_id": 0})";

// GPT-2 is found by name through the registry, as torch_ddp is.
class Gpt2 : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  Gpt2() { folder_.file("config.json", kGpt2); }

  Model open() const {
    const auto& [architecture, precision] = GetParam();
    return Model::open(folder_.path() + "/config.json", architecture, precision);
  }
  JobOptions options(const std::string& strategy) const {
    JobOptions options = ddp();
    options.strategy = strategy;
    options.precision = std::get<1>(GetParam());
    return options;
  }
  // Labels that count: many in the first samples, hardly any in the last.
  Batch batch(int64_t samples) const {
    const std::string& architecture = std::get<0>(GetParam());
    at::manual_seed(4);
    const auto random = [](int64_t high, std::vector<int64_t> shape) {
      return at::randint(high, shape, at::kLong);
    };
    if (architecture == "GPT2ForSequenceClassification")
      return {{"input_ids", random(22, {samples, 7}) + 1}, {"labels", random(3, {samples})}};
    if (architecture == "GPT2DoubleHeadsModel") {
      Batch batch = {{"input_ids", random(23, {samples, 2, 7})},
                     {"mc_token_ids", random(7, {samples, 2})},
                     {"labels", random(23, {samples, 2, 7})},
                     {"mc_labels", random(2, {samples})}};
      batch.at("labels").narrow(0, samples / 2, samples - samples / 2).narrow(2, 2, 5).fill_(-100);
      batch.at("mc_labels").narrow(0, samples - 1, 1).fill_(-100);
      return batch;
    }
    Batch batch = {{"input_ids", random(23, {samples, 7})}, {"labels", random(23, {samples, 7})}};
    batch.at("labels").narrow(0, samples / 2, samples - samples / 2).narrow(1, 2, 5).fill_(-100);
    return batch;
  }

 private:
  TemporaryFolder folder_;
};

TEST_P(Gpt2, HasTheGradientsOfOneRank) {
  const Batch global = batch(7);
  Job alone = boost(one_rank(), open(), options("none"));
  Outcome expected = backward(alone, global);
  // Added to every choice alike, so its gradient is zero but for rounding.
  const std::string without = "multiple_choice_head.summary.bias";
  expected.gradients.erase(without);
  on_ranks({2, 3}, [&](World& world) {
    Job job = boost(world, open(), options("torch_ddp"));
    Outcome actual = backward(job, own_part(global, world));
    if (actual.gradients.contains(without)) {
      EXPECT_LT(actual.gradients.at(without).abs().max().item<double>(), tolerance(std::get<1>(GetParam())));
    }
    actual.gradients.erase(without);
    expect_near(actual, expected, std::get<1>(GetParam()));
  });
}

INSTANTIATE_TEST_SUITE_P(Classes, Gpt2,
                         testing::Combine(testing::Values("GPT2LMHeadModel", "GPT2DoubleHeadsModel",
                                                          "GPT2ForSequenceClassification"),
                                          testing::Values("fp32", "fp64")));

class Toy : public testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(Toy, HasTheGradientsOfOneRankHoweverTheBatchSplits) {
  const std::string precision = std::get<0>(GetParam());
  const bool views = std::get<1>(GetParam());
  const JobOptions options =
      ddp(std::string("{\"find_unused_parameters\": true, \"bucket_cap_mb\": 0.0001, ") +
              "\"gradient_as_bucket_view\": " + (views ? "true" : "false") + "}",
          precision);
  // 2 samples on 3 ranks: one has none. The gate is used by the first samples only, labels are many in the
  // last.
  for (const int64_t samples : {2, 5, 8}) {
    Batch global = toy_batch(samples, 1);
    global.at("kinds").narrow(0, 1, samples - 1).zero_();
    global.at("kinds").select(0, 0).fill_(1);
    global.at("labels").narrow(0, 0, samples / 2).narrow(1, 1, 4).fill_(-100);
    for (const int64_t accumulate : {1, 2, 3}) {
      JobOptions chosen = options;
      const Outcome expected = on_one_rank(global, chosen);
      chosen.accumulate = accumulate;
      chosen.recompute = accumulate == 2 ? "all" : "off";
      on_ranks({2, 3}, [&](World& world) {
        Job job = boost(world, toy(chosen), chosen);
        expect_near(backward(job, own_part(global, world)), expected, precision);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, Toy, testing::Combine(testing::Values("fp32", "fp64"), testing::Bool()));

TEST(TorchDdp, HasTheGradientsAndStepsOfOneRank) {
  for (const char* precision : {"fp32", "fp64"}) expect_gradients_of_one_rank(ddp("{}", precision));
  expect_steps_of_one_rank(ddp());
}

TEST(TorchDdp, HasTheLossAndValuesOfOneRankAfterSteps) {
  JobOptions options = ddp("{}", "fp64");
  options.max_grad_norm = 0.05;
  std::vector<double> losses, norms;
  JobOptions plain = options;
  plain.strategy = "none";
  plain.options = "{}";
  Job alone = boost(one_rank(), toy(plain, "\"gated\": false"), plain, "adamw");
  for (int64_t step = 0; step < 4; ++step) {
    const StepResult result = alone.train_step(toy_batch(6, step));
    losses.push_back(result.loss);
    norms.push_back(result.grad_norm.value());
  }
  ASSERT_GT(norms[0], 0.05);
  const Tensors expected = values_of(alone);
  on_ranks({2, 3}, [&](World& world) {
    Job job = boost(world, toy(options, "\"gated\": false"), options, "adamw");
    for (int64_t step = 0; step < 4; ++step) {
      const StepResult result = job.train_step(own_part(toy_batch(6, step), world));
      EXPECT_NEAR(result.loss, losses[step], 1e-9);
      EXPECT_NEAR(result.grad_norm.value(), norms[step], 1e-9);
    }
    expect_near(values_of(job), expected, 1e-8);
  });
}

// The samples of one batch, as an application would have them.
class Samples final : public data::Dataset {
 public:
  explicit Samples(Batch all) : all_(std::move(all)) {}
  int64_t size() const override { return all_.begin()->second.size(0); }
  Batch get(const std::vector<int64_t>& indices) const override {
    Batch picked;
    for (const auto& [name, tensor] : all_)
      picked.set(name, tensor.index_select(0, at::tensor(indices, at::kLong)));
    return picked;
  }

 private:
  Batch all_;
};

TEST(TorchDdp, TrainsOnAShortLastBatchThatLeavesARankEmpty) {
  const Batch all = toy_batch(7, 3);  // 6 and 1 on 3 ranks of 2
  const JobOptions options = ddp("{}", "fp64");
  JobOptions plain = options;
  plain.strategy = "none";
  plain.options = "{}";
  Job alone = boost(one_rank(), toy(plain, "\"gated\": false"), plain);
  const double first = alone.train_step(part_of(all, 0, 6)).loss,
               second = alone.train_step(part_of(all, 6, 7)).loss;
  const Tensors expected = values_of(alone);
  on_ranks({3}, [&](World& world) {
    BoosterOptions chosen;
    chosen.strategy = "torch_ddp";
    chosen.precision = "fp64";
    Booster booster(chosen, world);
    Model model = toy(options, "\"gated\": false");
    data::Loader loader = booster.prepare_dataloader(std::make_shared<Samples>(all), 2);
    Job job = booster.boost(model, optim::SGD(model.parameters(), {.lr = 1}), {}, loader);
    std::vector<double> losses;
    for (const Batch& batch : loader) {
      EXPECT_EQ(batch.empty, losses.size() == 1 && world.rank() != 0);
      losses.push_back(job.train_step(batch).loss);
    }
    ASSERT_EQ(losses.size(), 2);
    EXPECT_NEAR(losses[0], first, 1e-11);
    EXPECT_NEAR(losses[1], second, 1e-11);
    expect_near(values_of(job), expected, 1e-11);
  });
}

TEST(TorchDdp, UpdatesByEveryRuleAsOneRank) {
  expect_rules_of_one_rank(ddp("{}", "fp64"));
}

TEST(TorchDdp, OnOneRankIsBitwiseNoStrategy) {
  for (const char* views : {"false", "true"}) {
    for (const char* recompute : {"off", "all"}) {
      Tensors values[2];
      std::vector<double> losses[2];
      for (const bool strategy : {false, true}) {
        JobOptions options = ddp(std::string("{\"gradient_as_bucket_view\": ") + views + "}");
        if (!strategy) options = {};
        options.max_grad_norm = 0.1;
        options.accumulate = 2;
        options.recompute = recompute;
        Job job = boost(one_rank(), toy(options, "\"dropout\": 0.2"), options, "adamw");
        for (int64_t step = 0; step < 5; ++step)
          losses[strategy].push_back(job.train_step(toy_batch(6, step)).loss);
        values[strategy] = values_of(job);
      }
      EXPECT_EQ(losses[0], losses[1]) << views << recompute;
      expect_equal(values[1], values[0]);
    }
  }
}

}  // namespace

}  // namespace weft::test
