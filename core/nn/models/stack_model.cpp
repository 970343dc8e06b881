#include "weft/nn/stack_model.hpp"

#include <algorithm>

namespace weft::nn {

void StackModel::assemble(std::unique_ptr<Inputs> inputs, std::unique_ptr<Unit> prologue,
                          std::vector<std::unique_ptr<Unit>> blocks, LastLayers last,
                          std::unique_ptr<Head> head) {
  inputs_ = std::move(inputs);
  add(std::move(prologue));
  add_all(std::move(blocks));
  const auto stream_end = base().register_module("stream_end", std::make_shared<Identity>());
  add_epilogue({}, *stream_end, std::move(last), std::move(head));
}

State StackModel::input(const Batch& batch) const {
  const BatchFields fields(batch, traits().architecture);
  std::vector<std::string> known = inputs_->fields();
  for (std::string& name : head().fields()) known.push_back(std::move(name));
  fields.refuse_others(known);
  State state;
  inputs_->read(fields, state);
  add_fields(fields, state);
  head().prepare(fields, inputs_->shape(batch), state);
  return state;
}

std::vector<SequenceLength> StackModel::lengths(const Batch& batch) const {
  const std::vector<int64_t> shape = inputs_->shape(batch);
  return {{"", shape.back(), c10::multiply_integers(shape) / shape.back()}};
}

std::optional<Batch> StackModel::example(int64_t samples, int64_t positions) const {
  Batch batch;
  inputs_->add_example(samples, positions, batch);
  return batch;
}

std::vector<ComposedModel::Passed> StackModel::made_fields(const Batch& batch, const State&) const {
  return {{hidden_field(inputs_->shape(batch), ""), 1, num_units() - 1}};
}

size_t StackModel::last_reader(std::string_view field) const {
  const std::vector<std::string> consumed = inputs_->consumed();
  return std::find(consumed.begin(), consumed.end(), field) == consumed.end() ? num_units() - 1 : 0;
}

std::vector<int64_t> StackModel::head_positions(const Batch& batch) const {
  return inputs_->shape(batch);
}

TokenStackModel::TokenStackModel(const Config& config, ModelTraits traits, TokenOptions tokens)
    : StackModel(config, std::move(traits)), tokens_(std::move(tokens)) {
  tokens_.dtype = this->traits().dtype;
}

void TokenStackModel::assemble(std::unique_ptr<Unit> prologue, std::vector<std::unique_ptr<Unit>> blocks,
                               LastLayers last, std::unique_ptr<Head> head) {
  tokens_.choices = head->has_choices();
  StackModel::assemble(std::make_unique<TokenInputs>(tokens_), std::move(prologue), std::move(blocks),
                       std::move(last), std::move(head));
}

std::vector<Objective> TokenStackModel::objectives() const {
  std::vector<Objective> found = StackModel::objectives();
  if (!continues_text())
    std::erase_if(found, [](const Objective& o) { return o.kind == Objective::Kind::kCausalLm; });
  return found;
}

std::optional<Decoding> TokenStackModel::decoding() const {
  if (!continues_text()) return std::nullopt;
  return TokenInputs(tokens_).decoding();
}

std::vector<Vocabulary> TokenStackModel::vocabularies() const {
  return TokenInputs(tokens_).vocabularies();
}

}  // namespace weft::nn
