// Label smoothing is libtorch's, in every head with a cross entropy and where the vocabulary is split.
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>

#include "api/job.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {
namespace {

constexpr double kSmoothing = 0.15;

class LabelSmoothing : public JobTest {
 protected:
  Job job(const World& world, double smoothing, const Criterion& criterion = {},
          const std::string& strategy_options = "{}") const {
    BoosterOptions options;
    options.strategy = strategy_options == "{}" ? "torch_ddp" : "hybrid_parallel";
    options.options = strategy_options;
    options.label_smoothing = smoothing;
    Booster booster(options, world);
    Model model = Model::open(options_.model, "", "fp32");
    optim::Optimizer optimizer("sgd", model.parameters(), {{"lr", 0.5}});
    data::Loader loader = booster.prepare_dataloader(data::text(options_.data, 32), 8 / booster.data_size(),
                                                     /*shuffle=*/true, 7);
    return booster.boost(std::move(model), std::move(optimizer), criterion, std::move(loader));
  }
};

at::Tensor smoothed(const State& outputs, const Batch& batch) {
  const at::Tensor logits = outputs.at("logits").slice(1, 0, -1), labels = batch.at("labels").slice(1, 1);
  return at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}), labels.reshape(-1), {},
                                at::Reduction::Mean, -100, kSmoothing);
}

TEST_F(LabelSmoothing, IsThatOfLibtorch) {
  on_ranks({1, 2}, [&](World& world) {
    Job expected = job(world, 0, smoothed), found = job(world, kSmoothing), plain = job(world, 0);
    const std::vector<double> losses = train(expected, 4), own = train(found, 4);
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(own[i], losses[i], 2e-6) << i;
    EXPECT_GT(std::abs(train(plain, 4).back() - own.back()), 1e-3);
    for (const auto& item : expected.model.module().named_parameters(true))
      EXPECT_TRUE(
          at::allclose(found.model.module().named_parameters(true)[item.key()], item.value(), 1e-4, 1e-6))
          << item.key();
  });
}

TEST_F(LabelSmoothing, IsThatOfOneRankWhereTheVocabularyIsSplit) {
  std::vector<double> losses;
  on_ranks({1}, [&](World& world) {
    Job one = job(world, kSmoothing);
    std::ofstream file(in("losses"));
    for (const double loss : train(one, 4)) file << nlohmann::json(loss).dump() << "\n";
  });
  std::ifstream file(in("losses"));
  for (double loss = 0; file >> loss;) losses.push_back(loss);
  ASSERT_EQ(losses.size(), 4u);
  for (const char* options :
       {R"({"tp_size": 2})",
        R"({"tp_size": 2, "enable_sequence_parallelism": true, "sequence_parallelism_mode": "split_gather"})",
        R"({"pp_size": 2, "num_microbatches": 2})"})
    on_ranks({2}, [&](World& world) {
      Job split = job(world, kSmoothing, {}, options);
      const std::vector<double> own = train(split, 4);
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(own[i], losses[i], 1e-5) << options << " " << i;
    });
}

TEST_F(LabelSmoothing, IsNotInEvaluations) {
  on_ranks({1}, [&](World& world) {
    Job with = job(world, kSmoothing), without = job(world, 0);
    Batch batch;
    ASSERT_TRUE(with.data.next(batch));
    EXPECT_EQ(with.evaluate(batch).loss(), without.evaluate(batch).loss());
  });
}

TEST_F(LabelSmoothing, OfALossWithoutClassesIsAnError) {
  options_.model =
      folder_.file("bert.json", R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
        "vocab_size": 32, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 16, "num_labels": 1})");
  on_ranks({1}, [&](World& world) {
    BoosterOptions options;
    options.strategy = "torch_ddp";
    options.label_smoothing = kSmoothing;
    Booster booster(options, world);
    Model model = Model::open(options_.model, "", "fp32");
    optim::Optimizer optimizer("sgd", model.parameters());
    Job regression = booster.boost(std::move(model), std::move(optimizer));
    Batch batch;
    batch.set("input_ids", at::arange(16).reshape({2, 8}));
    batch.set("labels", at::ones({2}));
    EXPECT_ERROR(regression.train_step(batch), WEFT_INVALID_ARGUMENT, "label_smoothing");
  });
}

}  // namespace
}  // namespace weft::test
