#include "weft/nn/composed_model.hpp"

#include <algorithm>

namespace weft::nn {

namespace {

class Epilogue final : public Unit {
 public:
  Epilogue(LastLayers before_end, Identity& stream_end, LastLayers finish, const Head& head,
           std::vector<std::string> kept)
      : Unit("epilogue"),
        before_end_(std::move(before_end.apply)),
        stream_end_(stream_end),
        finish_(std::move(finish.apply)),
        head_(head),
        kept_(std::move(kept)) {
    for (const auto& modules :
         {before_end.modules, std::vector<torch::nn::Module*>{&stream_end}, finish.modules, head.modules()})
      for (torch::nn::Module* module : modules) uses(*module);
  }

  void forward(State& state) override {
    std::vector<std::string> entered;
    for (const auto& [name, tensor] : state)
      if (std::find(kept_.begin(), kept_.end(), name) == kept_.end()) entered.push_back(name);
    state.set(kHidden, stream_end_(before_end_(state.at(kHidden))));
    head_.forward(finish_, state);
    for (const std::string& name : entered) state.erase(name);
  }

 private:
  const Head::Finish before_end_;
  const Identity& stream_end_;
  const Head::Finish finish_;
  const Head& head_;
  const std::vector<std::string> kept_;
};

}  // namespace

ComposedModel::ComposedModel(const Config& config, ModelTraits traits)
    : Model(config), traits_(std::move(traits)) {
  if (traits_.prefix.empty()) return;
  const std::string name = traits_.prefix.substr(0, traits_.prefix.size() - 1);
  base_ = register_module(name, std::make_shared<torch::nn::Module>(name)).get();
}

void ComposedModel::add_all(std::vector<std::unique_ptr<Unit>> units) {
  for (std::unique_ptr<Unit>& unit : units) add(std::move(unit));
}

void ComposedModel::add_epilogue(LastLayers before_end, Identity& stream_end, LastLayers finish,
                                 std::unique_ptr<Head> head, std::vector<std::string> kept) {
  head_ = std::move(head);
  add(std::make_unique<Epilogue>(std::move(before_end), stream_end, std::move(finish), *head_,
                                 std::move(kept)));
}

std::vector<Unit*> ComposedModel::units() {
  std::vector<Unit*> units;
  for (const auto& unit : units_) units.push_back(unit.get());
  return units;
}

std::vector<LossTerm> ComposedModel::loss(const State& last, const Batch& batch) const {
  return head_->loss(last, batch);
}

std::vector<LossCount> ComposedModel::counts(const Batch& batch) const {
  const std::vector<std::string> fields = head_->fields();
  const bool labelled =
      std::any_of(fields.begin(), fields.end(), [&](const std::string& field) { return batch.has(field); });
  return labelled ? head_->counts(batch, head_positions(batch)) : std::vector<LossCount>();
}

FieldShape ComposedModel::hidden_field(at::IntArrayRef positions, std::string sequence) const {
  const int64_t length = positions.back(), rows = c10::multiply_integers(positions) / length;
  return {kHidden, {rows, length, traits_.channels}, traits_.dtype,
          true,    FieldShape::Division::kPositions, std::move(sequence)};
}

std::vector<FieldShape> ComposedModel::boundary(const Batch& batch, size_t index) const {
  TORCH_INTERNAL_ASSERT(index < units_.size());
  const State state = input(batch);
  std::vector<FieldShape> fields;
  for (const auto& [name, tensor] : state)
    if (index <= last_reader(name))
      fields.push_back({.name = name,
                        .shape = tensor.sizes().vec(),
                        .dtype = tensor.scalar_type(),
                        .differentiable = false,
                        .from_input = true});
  for (Passed& passed : made_fields(batch, state))
    if (passed.first <= index && index <= passed.last) fields.push_back(std::move(passed.field));
  return fields;
}

}  // namespace weft::nn
