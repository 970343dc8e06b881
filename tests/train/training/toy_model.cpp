#include "train/training/toy_model.hpp"

#include <ATen/ATen.h>
#include <weft/error.hpp>
#include <weft/nn/forward_context.hpp>
#include <weft/nn/row_labels.hpp>

namespace weft::test {

namespace {

bool any_one(const State& state, std::string_view field) {
  const at::Tensor* values = state.find(field);
  return values != nullptr && values->eq(1).any().item<bool>();
}

}  // namespace

struct ToyModel::Block : torch::nn::Module {
  Block(int64_t width, double dropout, bool gated, at::ScalarType dtype) {
    norm = register_module("norm", std::make_shared<nn::LayerNorm>(width, 1e-5, dtype));
    linear = register_module("linear", std::make_shared<nn::Linear>(width, width, true, dtype));
    drop = register_module("drop", std::make_shared<nn::Dropout>(dropout));
    if (!gated) return;
    gate = register_parameter("gate", at::empty({width}, at::TensorOptions().dtype(dtype).device(at::kMeta)));
    scale = register_buffer("scale", at::ones({1}, dtype));
  }
  at::Tensor forward(const at::Tensor& x) const { return (*drop)((*linear)((*norm)(x)).tanh()); }

  std::shared_ptr<nn::LayerNorm> norm;
  std::shared_ptr<nn::Linear> linear;
  std::shared_ptr<nn::Dropout> drop;
  at::Tensor gate, scale;  // the first block's
};

class ToyModel::EmbedUnit final : public nn::Unit {
 public:
  explicit EmbedUnit(ToyModel& model) : Unit("embed"), model_(model) { uses(*model.embedding_); }
  void forward(State& state) override {
    ++model_.runs_[name()];
    state.set("x", (*model_.embedding_)(state.at("ids")));
    state.erase("ids");
  }

 private:
  ToyModel& model_;
};

class ToyModel::BlockUnit final : public nn::Unit {
 public:
  BlockUnit(ToyModel& model, size_t index)
      : Unit("blocks." + std::to_string(index)),
        model_(model),
        index_(index),
        block_(uses(*model.blocks_[index])) {}
  void forward(State& state) override {
    ++model_.runs_[name()];
    at::Tensor x = state.at("x");
    if (index_ == 1 && any_one(state, "skip")) return;
    if (index_ == 1 && any_one(state, "cut")) x = x.detach();
    if (index_ == 1 && model_.spoils_input_) x.mul_(2);
    if (index_ == 0 && block_.gate.defined() && any_one(state, "kinds"))
      x = x + block_.gate * state.at("kinds").eq(1).unsqueeze(-1).to(x.scalar_type());
    at::Tensor y = x + block_.forward(x);
    if (block_.scale.defined()) y = y * block_.scale;
    if (model_.balance_ != 0)
      nn::ForwardContext::current().add_loss({"balance", model_.balance_, y.square().sum(), ""});
    state.set("x", y);
  }

 private:
  ToyModel& model_;
  size_t index_;
  Block& block_;
};

class ToyModel::HeadUnit final : public nn::Unit {
 public:
  explicit HeadUnit(ToyModel& model) : Unit("head"), model_(model) { uses(*model.head_); }
  void forward(State& state) override {
    ++model_.runs_[name()];
    state.set("logits", (*model_.head_)(state.at("x")));
    state.erase("x");
  }

 private:
  ToyModel& model_;
};

ToyModel::ToyModel(const Config& config, at::ScalarType dtype)
    : Model(config),
      vocab_(config.integer("vocab", 13)),
      width_(config.integer("width", 6)),
      frozen_(config.integer("frozen", 0)),
      balance_(config.real("balance", 0)),
      dtype_(dtype) {
  embedding_ = register_module("wte", std::make_shared<nn::Embedding>(vocab_, width_, dtype));
  const auto list = register_module("blocks", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < config.integer("blocks", 3); ++i) {
    const bool gated = i == 0 && config.flag("gated", true);
    blocks_.push_back(std::make_shared<Block>(width_, config.real("dropout", 0), gated, dtype));
    list->register_module(std::to_string(i), blocks_.back());
  }
  head_ = register_module("head", std::make_shared<nn::Linear>(embedding_->weight, at::Tensor()));
  units_.push_back(std::make_unique<EmbedUnit>(*this));
  for (size_t i = 0; i < blocks_.size(); ++i) units_.push_back(std::make_unique<BlockUnit>(*this, i));
  units_.push_back(std::make_unique<HeadUnit>(*this));
}

std::vector<nn::Unit*> ToyModel::units() {
  std::vector<nn::Unit*> units;
  for (const auto& unit : units_) units.push_back(unit.get());
  return units;
}

State ToyModel::input(const Batch& batch) const {
  nn::check_ids(batch.at("ids"), vocab_, "ids");
  State state = {{"ids", batch.at("ids")}, {"kinds", batch.at("kinds")}};
  for (const char* field : {"skip", "cut"})
    if (const at::Tensor* values = batch.find(field)) state.set(field, *values);
  return state;
}

std::vector<nn::LossTerm> ToyModel::loss(const State& last, const Batch& batch) const {
  if (!batch.has("labels")) return {};
  return {{"loss", 1, nn::RowLabels{batch.at("labels")}.cross_entropy(last.at("logits"))}};
}

std::vector<nn::LossCount> ToyModel::counts(const Batch& batch) const {
  if (!batch.has("labels")) return {};
  return {{"loss", nn::RowLabels{batch.at("labels")}.count()}};
}

std::vector<nn::FieldShape> ToyModel::boundary(const Batch& batch, size_t index) const {
  const std::vector<int64_t> positions = batch.at("ids").sizes().vec();
  std::vector<nn::FieldShape> fields;
  if (index == 0) fields.push_back({"ids", positions, at::kLong, false});
  fields.push_back({"kinds", positions, at::kLong, false});
  if (index > 0) fields.push_back({"x", {positions[0], positions[1], width_}, dtype_, true});
  return fields;
}

std::vector<nn::SequenceLength> ToyModel::lengths(const Batch& batch) const {
  const at::Tensor& ids = batch.at("ids");
  return {{"", ids.size(1), ids.size(0)}};
}

nn::Initial ToyModel::initial(std::string_view parameter) const {
  if (parameter.ends_with("norm.weight")) return nn::Initial::constant(1);
  return nn::Initial::normal(0, 0.4);
}

bool ToyModel::frozen(std::string_view parameter) const {
  if (frozen_ == 0) return false;
  if (parameter == "wte.weight") return true;
  for (int64_t block = 0; block + 1 < frozen_; ++block)
    if (parameter.starts_with("blocks." + std::to_string(block) + ".")) return true;
  return false;
}

at::Tensor ToyModel::scale() const {
  return blocks_[0]->scale;
}

std::shared_ptr<ToyModel> make_toy(const std::string& keys, at::ScalarType dtype) {
  return std::make_shared<ToyModel>(Config::parse("{" + keys + "}", "toy"), dtype);
}

Batch toy_batch(int64_t samples, int64_t seed, bool gated) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  const auto random = [&](int64_t high) { return at::randint(high, {samples, 5}, generator, at::kLong); };
  const at::Tensor ids = random(13), kinds = gated ? random(3) : at::zeros({samples, 5}, at::kLong);
  const at::Tensor labels = random(13).masked_fill(random(3).eq(0), -100);
  return {{"ids", ids}, {"kinds", kinds}, {"labels", labels}};
}

Batch part_of(const Batch& batch, int64_t begin, int64_t end) {
  Batch part;
  for (const auto& [name, tensor] : batch) part.set(name, tensor.narrow(0, begin, end - begin));
  return part;
}

Batch with(Batch batch, const std::string& field, int64_t value) {
  batch.set(field, at::full({batch.at("ids").size(0)}, value, at::kLong));
  return batch;
}

}  // namespace weft::test
