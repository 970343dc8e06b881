#include "weft/nn/decoder.hpp"

#include "base/text.hpp"
#include "weft/nn/masks.hpp"

namespace weft::nn {

namespace {

class Epilogue final : public Unit {
 public:
  Epilogue(Identity& stream_end, torch::nn::Module& norm, Head::Finish finish, const Head& head)
      : Unit("epilogue"), stream_end_(uses(stream_end)), finish_(std::move(finish)), head_(head) {
    uses(norm);
    for (torch::nn::Module* module : head.modules()) uses(*module);
  }
  void forward(State& state) override {
    state.set(kHidden, stream_end_(state.at(kHidden)));
    head_.forward(finish_, state);
    state.erase(kAttentionMask);
    state.erase(kPositions);
  }

 private:
  const Identity& stream_end_;
  const Head::Finish finish_;
  const Head& head_;
};

}  // namespace

DecoderModel::DecoderModel(const Config& config, DecoderTraits traits)
    : Model(config), traits_(std::move(traits)) {
  if (traits_.prefix.empty()) return;
  const std::string name = traits_.prefix.substr(0, traits_.prefix.size() - 1);
  base_ = register_module(name, std::make_shared<torch::nn::Module>(name)).get();
}

void DecoderModel::assemble(std::unique_ptr<Unit> prologue, std::vector<std::unique_ptr<Unit>> blocks,
                            torch::nn::Module& norm, Head::Finish finish, std::unique_ptr<Head> head) {
  head_ = std::move(head);
  const auto stream_end = base().register_module("stream_end", std::make_shared<Identity>());
  units_.push_back(std::move(prologue));
  for (std::unique_ptr<Unit>& block : blocks) units_.push_back(std::move(block));
  units_.push_back(std::make_unique<Epilogue>(*stream_end, norm, std::move(finish), *head_));
}

std::vector<Unit*> DecoderModel::units() {
  std::vector<Unit*> units;
  for (const auto& unit : units_) units.push_back(unit.get());
  return units;
}

State DecoderModel::input(const Batch& batch) const {
  const BatchFields fields(batch, traits_.architecture);
  std::vector<std::string> known = {kInputIds, kAttentionMask, kPositions};
  if (traits_.token_types) known.push_back(kTokenTypes);
  for (std::string& name : head_->fields()) known.push_back(std::move(name));
  fields.refuse_others(known);

  const at::Tensor ids = token_ids(fields);
  const int64_t positions = ids.size(-1);
  State state = {{kInputIds, ids.reshape({-1, positions})}};
  if (fields.has(kTokenTypes)) {
    fields.require_shape(kTokenTypes, {ids.sizes().vec()});
    fields.require_range(kTokenTypes, traits_.vocabulary);
    state.set(kTokenTypes, fields.integers(kTokenTypes).reshape({-1, positions}));
  }
  if (fields.has(kPositions)) state.set(kPositions, position_ids(fields, ids));
  at::Tensor mask = padding_mask(fields, kAttentionMask, ids.sizes(), traits_.dtype);
  if (traits_.packs && fields.has(kPositions) && !fields.has(kAttentionMask)) {
    mask = packing_mask(state.at(kPositions), ids.numel() / positions, traits_.dtype);
  }
  if (mask.defined()) state.set(kAttentionMask, mask);
  head_->prepare(fields, ids, state);
  return state;
}

at::Tensor DecoderModel::token_ids(const BatchFields& batch) const {
  const at::Tensor ids = batch.integers(kInputIds);
  const bool right_dims = ids.dim() == 2 || (ids.dim() == 3 && head_->has_choices());
  if (!right_dims || ids.numel() == 0) {
    batch.refuse(kInputIds, fmt::format("its shape is {}, must be (samples, {}positions), none of them 0",
                                        shape_text(ids.sizes()), head_->has_choices() ? "choices, " : ""));
  }
  if (ids.size(-1) > traits_.positions) {
    batch.refuse(kInputIds, fmt::format("it has {} positions, but \"{}\" of the configuration is {}",
                                        ids.size(-1), traits_.positions_key, traits_.positions));
  }
  batch.require_range(kInputIds, traits_.vocabulary);
  return ids;
}

at::Tensor DecoderModel::position_ids(const BatchFields& batch, const at::Tensor& ids) const {
  const int64_t positions = ids.size(-1), rows = ids.numel() / positions;
  batch.require_shape(kPositions, {ids.sizes().vec(), {rows, positions}, {1, positions}});
  batch.require_range(kPositions, traits_.positions);
  return batch.integers(kPositions).reshape({-1, positions});
}

std::vector<LossTerm> DecoderModel::loss(const State& last, const Batch& batch) const {
  std::vector<LossTerm> terms = head_->loss(last, batch);
  if (batch.empty) {
    for (LossTerm& term : terms) term.sum = term.sum * 0;
  }
  return terms;
}

std::vector<LossCount> DecoderModel::counts(const Batch& batch) const {
  std::vector<LossCount> counts = head_->counts(batch);
  if (batch.empty) {
    for (LossCount& count : counts) count.count = 0;
  }
  return counts;
}

std::vector<FieldShape> DecoderModel::boundary(const Batch& batch, size_t index) const {
  TORCH_INTERNAL_ASSERT(index < units_.size());
  State state = input(batch);
  const at::IntArrayRef ids = state.at(kInputIds).sizes();
  const std::vector<int64_t> hidden = {ids[0], ids[1], traits_.channels};
  if (index > 0) {
    state.erase(kInputIds);
    state.erase(kTokenTypes);
    if (!traits_.blocks_need_positions) state.erase(kPositions);
  }
  std::vector<FieldShape> fields;
  for (const auto& [name, tensor] : state) {
    fields.push_back({name, tensor.sizes().vec(), tensor.scalar_type(), false});
  }
  if (index > 0) fields.push_back({kHidden, hidden, traits_.dtype, true});
  return fields;
}

std::vector<SequenceLength> DecoderModel::lengths(const Batch& batch) const {
  const at::IntArrayRef ids = batch.at(kInputIds).sizes();
  return {{"", ids.back(), c10::multiply_integers(ids.slice(0, ids.size() - 1))}};
}

}  // namespace weft::nn
