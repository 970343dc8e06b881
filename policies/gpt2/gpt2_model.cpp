#include "gpt2_model.hpp"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text.hpp"

namespace weft::gpt2 {

namespace {

constexpr std::array<Architecture, 6> kArchitectures = {{
    {"GPT2Model", "", make_base_head},
    {"GPT2LMHeadModel", "transformer.", make_language_head},
    {"GPT2DoubleHeadsModel", "transformer.", make_double_heads},
    {"GPT2ForSequenceClassification", "transformer.", make_sequence_classifier},
    {"GPT2ForTokenClassification", "transformer.", make_token_classifier},
    {"GPT2ForQuestionAnswering", "transformer.", make_answer_head},
}};

// The last unit: the last layer norm and the head.
class Epilogue final : public nn::Unit {
 public:
  Epilogue(const Trunk& trunk, const Head& head) : Unit("epilogue"), ln_f_(uses(*trunk.ln_f)), head_(head) {
    for (torch::nn::Module* module : head.modules()) uses(*module);
  }
  void forward(State& state) override {
    head_.forward(ln_f_, state);
    state.erase(kMask);
  }

 private:
  const nn::LayerNorm& ln_f_;
  const Head& head_;
};

// Of the additive masks: finite, since a row of nothing else must stay defined.
double forbidden(at::ScalarType dtype) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "attention mask", [] {
    return static_cast<double>(std::numeric_limits<scalar_t>::lowest());
  });
}

at::Tensor additive_mask(const at::Tensor& allowed, at::ScalarType dtype) {
  return at::zeros(allowed.sizes(), allowed.options().dtype(dtype))
      .masked_fill_(allowed.logical_not(), forbidden(dtype));
}

}  // namespace

const Architecture& find_architecture(std::string_view name) {
  std::vector<std::string> known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return architecture;
    known.emplace_back(architecture.name);
  }
  fail(WEFT_NOT_FOUND, "gpt2: no model class is called \"{}\"{}; there are: {}", printable(name, 60),
       did_you_mean(name, known), fmt::join(known, ", "));
}

Gpt2Model::Gpt2Model(const Config& config, const Architecture& architecture, at::ScalarType dtype)
    : Model(config), gpt2_(Gpt2Config::read(config)), architecture_(architecture), dtype_(dtype) {
  torch::nn::Module* root = this;
  if (!architecture.prefix.empty()) {
    root = register_module("transformer", std::make_shared<torch::nn::Module>("transformer")).get();
  }
  trunk_ = std::make_unique<Trunk>(*root, gpt2_, dtype);
  head_ = architecture.make_head({*this, *trunk_, gpt2_, dtype});
  units_.push_back(std::make_unique<Prologue>(*trunk_));
  for (size_t layer = 0; layer < trunk_->blocks.size(); ++layer) {
    units_.push_back(std::make_unique<BlockUnit>("h." + std::to_string(layer), *trunk_->blocks[layer]));
  }
  units_.push_back(std::make_unique<Epilogue>(*trunk_, *head_));
}

std::vector<nn::Unit*> Gpt2Model::units() {
  std::vector<nn::Unit*> units;
  for (const auto& unit : units_) units.push_back(unit.get());
  return units;
}

State Gpt2Model::input(const Batch& batch) const {
  const BatchFields fields(batch, architecture_.name);
  std::vector<std::string> known = {kInputIds, kMask, kTokenTypes, kPositions};
  for (std::string& name : head_->fields()) known.push_back(std::move(name));
  fields.refuse_others(known);

  const at::Tensor ids = token_ids(fields);
  const int64_t positions = ids.size(-1);
  State state = {{kInputIds, ids.reshape({-1, positions})}};
  if (fields.has(kTokenTypes)) {
    fields.require_shape(kTokenTypes, {ids.sizes().vec()});
    fields.require_range(kTokenTypes, gpt2_.vocab_size);
    state.set(kTokenTypes, fields.integers(kTokenTypes).reshape({-1, positions}));
  }
  if (fields.has(kPositions)) state.set(kPositions, position_ids(fields, ids));
  at::Tensor mask = attention_mask(fields, ids);
  if (!fields.has(kMask) && fields.has(kPositions) && !gpt2_.use_cache) {
    mask = packing_mask(state.at(kPositions), ids.numel() / positions);
  }
  if (mask.defined()) state.set(kMask, mask);
  head_->prepare(fields, ids, state);
  return state;
}

at::Tensor Gpt2Model::token_ids(const BatchFields& batch) const {
  const at::Tensor ids = batch.integers(kInputIds);
  const bool right_dims = ids.dim() == 2 || (ids.dim() == 3 && head_->has_choices());
  if (!right_dims || ids.numel() == 0) {
    batch.refuse(kInputIds, fmt::format("its shape is {}, must be (samples, {}positions), none of them 0",
                                        shape_text(ids.sizes()), head_->has_choices() ? "choices, " : ""));
  }
  if (ids.size(-1) > gpt2_.n_positions) {
    batch.refuse(kInputIds, fmt::format("it has {} positions, but \"n_positions\" of the configuration is {}",
                                        ids.size(-1), gpt2_.n_positions));
  }
  batch.require_range(kInputIds, gpt2_.vocab_size);
  return ids;
}

at::Tensor Gpt2Model::position_ids(const BatchFields& batch, const at::Tensor& ids) const {
  const int64_t positions = ids.size(-1), rows = ids.numel() / positions;
  batch.require_shape(kPositions, {ids.sizes().vec(), {rows, positions}, {1, positions}});
  batch.require_range(kPositions, gpt2_.n_positions);
  return batch.integers(kPositions).reshape({-1, positions});
}

// Undefined where nothing is masked: attention is faster without.
at::Tensor Gpt2Model::attention_mask(const BatchFields& batch, const at::Tensor& ids) const {
  if (!batch.has(kMask)) return {};
  batch.require_shape(kMask, {ids.sizes().vec(), {ids.numel() / ids.size(-1), ids.size(-1)}});
  const at::Tensor& mask = batch.batch().at(kMask);
  const at::Tensor allowed = mask.ne(0);
  if (mask.scalar_type() != at::kBool && !mask.eq(allowed).all().item<bool>()) {
    batch.refuse(kMask, "it has values beside 0 (padding) and 1 (attend)");
  }
  if (allowed.all().item<bool>()) return {};
  return additive_mask(allowed.reshape({-1, 1, 1, ids.size(-1)}), dtype_);
}

// Several sequences in one row, each with positions that count up by one: none attends to another. As in
// Hugging Face, only where neither a mask nor a cache is asked for. Undefined where every row is one
// sequence.
at::Tensor Gpt2Model::packing_mask(const at::Tensor& positions, int64_t rows) const {
  const at::Tensor sequence = at::diff(positions, 1, -1, positions.slice(-1, 0, 1) - 1).ne(1).cumsum(-1);
  if (sequence.select(-1, -1).eq(0).all().item<bool>()) return {};
  const at::Tensor allowed = sequence.unsqueeze(-1).eq(sequence.unsqueeze(-2)).unsqueeze(1);
  return additive_mask(allowed.expand({rows, 1, -1, -1}), dtype_);
}

std::vector<nn::LossTerm> Gpt2Model::loss(const State& last, const Batch& batch) const {
  std::vector<nn::LossTerm> terms = head_->loss(last, batch);
  if (batch.empty) {
    for (nn::LossTerm& term : terms) term.sum = term.sum * 0;
  }
  return terms;
}

std::vector<nn::LossCount> Gpt2Model::counts(const Batch& batch) const {
  std::vector<nn::LossCount> counts = head_->counts(batch);
  if (batch.empty) {
    for (nn::LossCount& count : counts) count.count = 0;
  }
  return counts;
}

State Gpt2Model::outputs(const State& last) const {
  return last;
}

std::vector<nn::FieldShape> Gpt2Model::boundary(const Batch& batch, size_t index) const {
  TORCH_INTERNAL_ASSERT(index < units_.size());
  State state = input(batch);
  const at::IntArrayRef ids = state.at(kInputIds).sizes();
  const std::vector<int64_t> hidden = {ids[0], ids[1], gpt2_.n_embd};
  if (index > 0) {
    for (const char* name : {kInputIds, kPositions, kTokenTypes}) state.erase(name);
  }
  std::vector<nn::FieldShape> fields;
  for (const auto& [name, tensor] : state) {
    fields.push_back({name, tensor.sizes().vec(), tensor.scalar_type(), false});
  }
  if (index > 0) fields.push_back({kHidden, hidden, dtype_, true});
  return fields;
}

nn::Initial Gpt2Model::initial(std::string_view parameter) const {
  const auto within = [&](std::string_view part) { return parameter.find(part) != std::string_view::npos; };
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (within("ln_")) return nn::Initial::constant(1);
  const double range = gpt2_.initializer_range;
  // Residual layers shrink with depth (the paper's section 2.3).
  if (parameter.ends_with("c_proj.weight"))
    return nn::Initial::normal(0, range / std::sqrt(2.0 * gpt2_.n_layer));
  if (within("c_attn") || within("c_fc")) return nn::Initial::normal(0, range);
  // Hugging Face takes 0 for no value here.
  return nn::Initial::normal(0, range == 0 ? 0.02 : range);
}

bool Gpt2Model::ignored_on_load(std::string_view entry) const {
  return entry.ends_with(".attn.bias") || entry.ends_with(".attn.masked_bias");
}

}  // namespace weft::gpt2
