// Trains a model that the application defines itself under any strategy: a dilated causal network over bytes,
// in which block i looks back 2^i positions. Weft finds its shard policy, policy.c, by "model_type".
//   own_model DATA [BOOSTER_OPTIONS_JSON]
//   weft run -n 2 own_model corpus.txt '{"strategy": "hybrid_parallel", "options": {"tp_size": 2}}'
#include <weft/nn/layers.hpp>
#include <weft/nn/row_labels.hpp>
#include <weft/nn/token_model.hpp>
#include <weft/weft.hpp>

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>

#include <cstdio>

namespace {

using weft::Batch;
using weft::State;
namespace nn = weft::nn;

constexpr int64_t kBytes = 256;

// Computes x + down(gelu(up(norm([x, y])))), where y is x moved by `reach` positions. x: (B, T, C)
class Block final : public nn::Layer, public nn::Unit {
 public:
  Block(int64_t index, int64_t width, at::ScalarType dtype)
      : Unit("blocks." + std::to_string(index)), reach_(int64_t{1} << index) {
    norm_ = register_module("norm", std::make_shared<nn::LayerNorm>(2 * width, 1e-5, dtype));
    up_ = register_module("up", std::make_shared<nn::Linear>(2 * width, 4 * width, true, dtype));
    down_ = register_module("down", std::make_shared<nn::Linear>(4 * width, width, true, dtype));
    uses<torch::nn::Module>(*this);
  }
  std::string kind() const override { return "Block"; }
  void forward(State& state) override {
    const at::Tensor x = state.at("x");
    const at::Tensor before = at::constant_pad_nd(x, {0, 0, reach_, 0}).narrow(1, 0, x.size(1));
    const at::Tensor hidden = nn::activation("gelu_new")((*up_)((*norm_)(at::cat({x, before}, -1))));
    state.set("x", x + (*down_)(hidden));
  }

 private:
  int64_t reach_;
  std::shared_ptr<nn::LayerNorm> norm_;
  std::shared_ptr<nn::Linear> up_, down_;
};

class First final : public nn::Unit {
 public:
  explicit First(nn::Embedding& embedding) : Unit("first"), embedding_(uses(embedding)) {}
  void forward(State& state) override {
    state.set("x", embedding_(state.at("input_ids")));
    state.erase("input_ids");
  }

 private:
  nn::Embedding& embedding_;
};

class Last final : public nn::Unit {
 public:
  explicit Last(nn::Linear& head) : Unit("last"), head_(uses(head)) {}
  void forward(State& state) override {
    state.set("logits", head_(state.at("x")));
    state.erase("x");
  }

 private:
  nn::Linear& head_;
};

class Dilated final : public nn::Model, public nn::TokenModel {
 public:
  Dilated(const weft::Config& config, at::ScalarType dtype)
      : Model(config), width_(config.integer("width")), dtype_(dtype) {
    embedding_ = register_module("embedding", std::make_shared<nn::Embedding>(kBytes, width_, dtype));
    const auto blocks = register_module("blocks", std::make_shared<torch::nn::Module>());
    head_ = register_module("head", std::make_shared<nn::Linear>(width_, kBytes, false, dtype));
    first_ = std::make_unique<First>(*embedding_);
    units_.push_back(first_.get());
    for (int64_t i = 0; i < config.integer("blocks"); ++i) {
      const auto block = std::make_shared<Block>(i, width_, dtype);
      units_.push_back(blocks->register_module(std::to_string(i), block).get());
    }
    last_ = std::make_unique<Last>(*head_);
    units_.push_back(last_.get());
  }

  std::string architecture() const override { return "Dilated"; }
  std::vector<nn::Unit*> units() override { return units_; }
  std::vector<weft::Vocabulary> vocabularies() const override { return {{"input_ids", kBytes}}; }
  State input(const Batch& batch) const override { return {{"input_ids", batch.at("input_ids")}}; }
  State outputs(const State& last) const override { return last; }
  std::vector<nn::LossTerm> loss(const State& last, const Batch& batch) const override {
    // Each position predicts the next byte.
    const at::Tensor labels = batch.at("labels").roll(-1, 1);
    labels.select(1, -1).fill_(-100);
    return {{"loss", 1, nn::cross_entropy_sum(*head_, last.at("logits"), labels)}};
  }
  std::vector<nn::LossCount> counts(const Batch& batch) const override {
    return {{"loss", nn::RowLabels{batch.at("labels").slice(1, 1)}.count()}};
  }
  std::vector<nn::FieldShape> boundary(const Batch& batch, size_t index) const override {
    const at::IntArrayRef ids = batch.at("input_ids").sizes();
    if (index == 0) return {{"input_ids", ids.vec(), at::kLong, false}};
    return {{"x", {ids[0], ids[1], width_}, dtype_, true}};
  }
  std::vector<nn::SequenceLength> lengths(const Batch& batch) const override {
    const at::Tensor& ids = batch.at("input_ids");
    return {{"", ids.size(1), ids.size(0)}};
  }
  nn::Initial initial(std::string_view parameter) const override {
    if (parameter.ends_with("bias")) return nn::Initial::constant(0);
    if (parameter.ends_with("norm.weight")) return nn::Initial::constant(1);
    return nn::Initial::normal(0, 0.05);
  }

 private:
  const int64_t width_;
  const at::ScalarType dtype_;
  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<nn::Linear> head_;
  std::unique_ptr<First> first_;
  std::unique_ptr<Last> last_;
  std::vector<nn::Unit*> units_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: own_model DATA [BOOSTER_OPTIONS_JSON]\n");
    return 2;
  }
  weft::World world = weft::launch();
  weft::Booster booster(weft::BoosterOptions::parse(argc > 2 ? argv[2] : "{}"), world);
  const auto config =
      weft::Config::parse(R"({"model_type": "dilated", "width": 32, "blocks": 5})", "own_model");
  auto model = weft::Model::adopt(std::make_shared<Dilated>(config, at::kFloat));
  auto optimizer = weft::optim::AdamW(model.parameters(), {.lr = 3e-3});
  auto data = booster.prepare_dataloader(weft::data::text(argv[1], 64), /*batch_size=*/8, /*shuffle=*/true);
  auto job = booster.boost(model, optimizer, {}, data);
  while (optimizer.steps() < 40)
    for (const Batch& batch : job.data) {
      const weft::StepResult step = job.train_step(batch);
      if (step.index % 10 == 0 || step.index == 1)
        world.print_on_master("step " + std::to_string(step.index) + " loss " + std::to_string(step.loss));
      if (step.index == 40) break;
    }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "own_model: %s\n", error.what());
  return 1;
}
