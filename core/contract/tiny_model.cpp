#include "contract/tiny_model.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>

#include "device/device.hpp"
#include "device/random.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::contract {

namespace {

constexpr int64_t kVocabulary = 11, kWidth = 7, kBlocks = 2, kPositions = 5, kSamples = 7;

}  // namespace

// Adds a constant, which is not trained.
struct TinyModel::Shift : torch::nn::Module {
  explicit Shift(at::ScalarType dtype)
      : value(register_parameter("value",
                                 at::empty({kWidth}, at::TensorOptions().dtype(dtype).device(at::kMeta)),
                                 /*requires_grad=*/false)) {}
  at::Tensor value;
};

struct TinyModel::Block : torch::nn::Module {
  Block(bool is_first, at::ScalarType dtype) {
    norm = register_module("norm", std::make_shared<nn::LayerNorm>(kWidth, 1e-5, dtype));
    linear = register_module("linear", std::make_shared<nn::Linear>(kWidth, kWidth, true, dtype));
    if (is_first)
      scale = register_parameter("scale", at::empty({1}, at::TensorOptions().dtype(dtype).device(at::kMeta)));
  }
  at::Tensor forward(const at::Tensor& x) const {
    const at::Tensor y = (*linear)((*norm)(x)).tanh();
    return scale.defined() ? x * scale + y : x + y;
  }

  std::shared_ptr<nn::LayerNorm> norm;
  std::shared_ptr<nn::Linear> linear;
  at::Tensor scale;  // the first block's, of one element
};

TinyModel::TinyModel(at::ScalarType dtype)
    : Model(Config::parse(R"({"model_type": "tiny", "architectures": ["TinyModel"]})", "the tiny model")),
      dtype_(dtype) {
  embedding_ = register_module("wte", std::make_shared<nn::Embedding>(kVocabulary, kWidth, dtype));
  const auto list = register_module("blocks", std::make_shared<torch::nn::Module>());
  units_.push_back(nn::make_unit("embed", {embedding_.get()}, [this](State& state) {
    see("wte.", *embedding_);
    state.set("x", (*embedding_)(state.at("ids")));
    state.erase("ids");
  }));
  shift_ = register_module("shift", std::make_shared<Shift>(dtype));
  units_.push_back(nn::make_unit("shift", {shift_.get()}, [this](State& state) {
    see("shift.", *shift_);
    state.set("x", state.at("x") + shift_->value);
  }));
  for (int64_t i = 0; i < kBlocks; ++i) {
    const std::string name = std::to_string(i);
    blocks_.push_back(list->register_module(name, std::make_shared<Block>(i == 0, dtype)));
    Block* const block = blocks_.back().get();
    units_.push_back(nn::make_unit("blocks." + name, {block}, [this, block, name](State& state) {
      see("blocks." + name + ".", *block);
      state.set("x", block->forward(state.at("x")));
    }));
  }
  head_ = register_module("head", std::make_shared<nn::Linear>(embedding_->weight, at::Tensor()));
  units_.push_back(nn::make_unit("head", {head_.get()}, [this](State& state) {
    state.set("logits", (*head_)(state.at("x")));
    state.erase("x");
  }));
}

void TinyModel::see(const std::string& prefix, const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters())
    seen_[prefix + item.key()] = item.value().detach().to(at::kDouble, false, /*copy=*/true);
}

std::map<std::string, at::Tensor> TinyModel::take_seen() {
  return std::exchange(seen_, {});
}

std::vector<nn::Unit*> TinyModel::units() {
  std::vector<nn::Unit*> units;
  for (const auto& unit : units_) units.push_back(unit.get());
  return units;
}

State TinyModel::input(const Batch& batch) const {
  nn::check_ids(batch.at("ids"), kVocabulary, "ids");
  return {{"ids", batch.at("ids")}};
}

std::vector<nn::LossTerm> TinyModel::loss(const State& last, const Batch& batch) const {
  return {{"loss", 1, nn::RowLabels{batch.at("labels")}.cross_entropy(last.at("logits"))}};
}

std::vector<nn::LossCount> TinyModel::counts(const Batch& batch) const {
  return {{"loss", nn::RowLabels{batch.at("labels")}.count()}};
}

std::vector<nn::FieldShape> TinyModel::boundary(const Batch& batch, size_t index) const {
  const std::vector<int64_t> positions = batch.at("ids").sizes().vec();
  if (index == 0) return {{"ids", positions, at::kLong, false}};
  return {{"x", {positions[0], positions[1], kWidth}, dtype_, true}};
}

std::vector<nn::SequenceLength> TinyModel::lengths(const Batch& batch) const {
  const at::Tensor& ids = batch.at("ids");
  return {{"", ids.size(1), ids.size(0)}};
}

nn::Initial TinyModel::initial(std::string_view parameter) const {
  if (parameter.ends_with("norm.weight") || parameter.ends_with("scale")) return nn::Initial::constant(1);
  return nn::Initial::normal(0, 0.4);
}

Batch tiny_batch(int64_t step) {
  const at::Generator generator = device::host_generator(static_cast<uint64_t>(1000 + step));
  const auto random = [&] {
    return at::randint(kVocabulary, {kSamples, kPositions}, generator, at::TensorOptions().dtype(at::kLong));
  };
  const at::Tensor ids = random(), labels = random();
  labels.narrow(0, kSamples / 2, kSamples - kSamples / 2).narrow(1, 1, kPositions - 1).fill_(nn::kIgnored);
  return {{"ids", ids}, {"labels", labels}};
}

}  // namespace weft::contract
