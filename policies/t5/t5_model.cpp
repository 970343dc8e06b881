#include "t5_model.hpp"

#include <array>
#include <cmath>

#include "base/text.hpp"
#include "weft/nn/architecture.hpp"
#include "weft/nn/masks.hpp"

namespace weft::t5 {

namespace {

double inverse_root(int64_t channels) {
  return 1 / std::sqrt(static_cast<double>(channels));
}

std::unique_ptr<nn::Head> no_head(const HeadSetting&) {
  return nn::make_base_head();
}

std::unique_ptr<nn::Head> language_head(const HeadSetting& setting) {
  const T5Config& config = setting.config;
  return std::make_unique<nn::LanguageHead>(
      setting.model, nn::LanguageHead::Options{
                         .channels = config.d_model,
                         .vocabulary = config.vocab_size,
                         .dtype = setting.dtype,
                         .tied = config.tied ? &setting.shared : nullptr,
                         .tied_name = "shared.weight",
                         .shifts = false,
                         .scale = config.scale_decoder_outputs ? inverse_root(config.d_model) : 1,
                     });
}

std::unique_ptr<nn::Head> token_classifier(const HeadSetting& setting) {
  const T5Config& config = setting.config;
  return nn::make_token_classifier(setting.model, config.d_model, config.labels, config.classifier_dropout,
                                   setting.dtype);
}

constexpr std::array<Architecture, 4> kArchitectures = {{
    {"T5Model", "", true, no_head},
    {"T5ForConditionalGeneration", "", true, language_head},
    {"T5EncoderModel", "", false, no_head},
    {"T5ForTokenClassification", "transformer.", false, token_classifier},
}};

// The last unit: the end of the last stack and the head.
class Epilogue final : public nn::Unit {
 public:
  Epilogue(const Stack& last, const nn::Head& head)
      : Unit("epilogue"),
        final_layer_norm_(uses(*last.final_layer_norm)),
        dropout_(uses(*last.dropout)),
        stream_end_(uses(*last.stream_end)),
        head_(head) {
    for (torch::nn::Module* module : head.modules()) uses(*module);
  }

  void forward(State& state) override {
    state.set(nn::kHidden, stream_end_(dropout_(final_layer_norm_(state.at(nn::kHidden)))));
    head_.forward([](const at::Tensor& x) { return x; }, state);
    for (const char* name : {nn::kAttentionMask, kPositionBias, kSource}) state.erase(name);
  }

 private:
  const nn::RmsNorm& final_layer_norm_;
  const nn::Dropout& dropout_;
  const nn::Identity& stream_end_;
  const nn::Head& head_;
};

}  // namespace

T5Model::T5Model(const Config& config, const Architecture& architecture, at::ScalarType dtype)
    : Model(config), t5_(T5Config::read(config)), architecture_(architecture), dtype_(dtype) {
  torch::nn::Module* root = this;
  if (!architecture.prefix.empty()) {
    root = register_module("transformer", std::make_shared<torch::nn::Module>("transformer")).get();
  }
  shared_ =
      root->register_module("shared", std::make_shared<nn::Embedding>(t5_.vocab_size, t5_.d_model, dtype));
  const auto stack = [&](const char* name, Side side) {
    const auto module = root->register_module(name, std::make_shared<torch::nn::Module>(name));
    return std::make_unique<Stack>(*module, side, shared_, t5_, dtype);
  };
  encoder_ = stack("encoder", Side::kEncoder);
  if (architecture.has_decoder) decoder_ = stack("decoder", Side::kDecoder);
  head_ = architecture.make_head({*this, *shared_, t5_, dtype});

  const auto add_blocks = [&](const std::string& name, const Stack& of, Side side) {
    for (size_t layer = 0; layer < of.blocks.size(); ++layer) {
      units_.push_back(std::make_unique<BlockUnit>(name + std::to_string(layer), *of.blocks[layer], side));
    }
  };
  units_.push_back(std::make_unique<Prologue>(*encoder_, decoder_.get()));
  add_blocks("encoder.block.", *encoder_, Side::kEncoder);
  if (decoder_) {
    units_.push_back(std::make_unique<EncoderEnd>(*encoder_));
    add_blocks("decoder.block.", *decoder_, Side::kDecoder);
  }
  units_.push_back(std::make_unique<Epilogue>(decoder_ ? *decoder_ : *encoder_, *head_));
}

std::vector<nn::Unit*> T5Model::units() {
  std::vector<nn::Unit*> units;
  for (const auto& unit : units_) units.push_back(unit.get());
  return units;
}

State T5Model::outputs(const State& last) const {
  State outputs = last;
  if (decoder_) outputs.set(kEncoderOutput, (*encoder_->stream_end)(last.at(kEncoderOutput)));
  return outputs;
}

State T5Model::input(const Batch& batch) const {
  const nn::BatchFields fields(batch, architecture_.name);
  std::vector<std::string> known = {nn::kInputIds, nn::kAttentionMask};
  if (decoder_) known.insert(known.end(), {kDecoderInputIds, kDecoderAttentionMask});
  for (std::string& name : head_->fields()) known.push_back(std::move(name));
  fields.refuse_others(known);

  const at::Tensor ids = token_ids(fields, nn::kInputIds);
  at::Tensor last = ids;  // of the stack that the head follows
  State state = {{nn::kInputIds, ids}};
  if (decoder_) {
    last = decoder_ids(fields);
    if (last.size(0) != ids.size(0)) {
      const char* name = fields.has(kDecoderInputIds) ? kDecoderInputIds : nn::kLabels;
      fields.refuse(name, fmt::format("it has {} samples, but input_ids {}", last.size(0), ids.size(0)));
    }
    state.set(kDecoderInputIds, last);
  }
  const auto set_mask = [&](const char* name, const at::Tensor& of) {
    const at::Tensor mask = nn::padding_mask(fields, name, of.sizes(), dtype_);
    if (mask.defined()) state.set(name, mask);
  };
  set_mask(nn::kAttentionMask, ids);
  if (decoder_) set_mask(kDecoderAttentionMask, last);
  head_->prepare(fields, last, state);
  return state;
}

at::Tensor T5Model::token_ids(const nn::BatchFields& batch, const char* name) const {
  const at::Tensor ids = batch.integers(name);
  if (ids.dim() != 2 || ids.numel() == 0) {
    batch.refuse(name, fmt::format("its shape is {}, must be (samples, positions), none of them 0",
                                   nn::shape_text(ids.sizes())));
  }
  batch.require_range(name, t5_.vocab_size, name == nn::kLabels);
  return ids;
}

at::Tensor T5Model::decoder_ids(const nn::BatchFields& batch) const {
  if (batch.has(kDecoderInputIds)) return token_ids(batch, kDecoderInputIds);
  if (batch.has(nn::kLabels)) return shifted_right(token_ids(batch, nn::kLabels));
  batch.refuse(kDecoderInputIds, head_->fields().empty()
                                     ? "the batch has none"
                                     : "the batch has neither this nor labels to make it of");
}

// The decoder begins with a token of its own and sees each label one place later.
at::Tensor T5Model::shifted_right(const at::Tensor& labels) const {
  if (!t5_.decoder_start_token_id) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: it has no \"decoder_start_token_id\", which labels become decoder_input_ids with; set it (T5's "
         "is its \"pad_token_id\", {}), or give decoder_input_ids",
         config().origin(), t5_.pad_token_id);
  }
  at::Tensor ids = labels.roll(1, -1);
  ids.select(-1, 0).fill_(*t5_.decoder_start_token_id);
  return ids.masked_fill_(ids.eq(nn::kIgnored), t5_.pad_token_id);
}

std::vector<nn::LossTerm> T5Model::loss(const State& last, const Batch& batch) const {
  std::vector<nn::LossTerm> terms = head_->loss(last, batch);
  if (batch.empty) {
    for (nn::LossTerm& term : terms) term.sum = term.sum * 0;
  }
  return terms;
}

std::vector<nn::LossCount> T5Model::counts(const Batch& batch) const {
  std::vector<nn::LossCount> counts = head_->counts(batch);
  if (batch.empty) {
    for (nn::LossCount& count : counts) count.count = 0;
  }
  return counts;
}

std::vector<nn::FieldShape> T5Model::boundary(const Batch& batch, size_t index) const {
  TORCH_INTERNAL_ASSERT(index < units_.size());
  const State state = input(batch);
  std::vector<nn::FieldShape> fields;
  const auto pass = [&](std::string_view name) {
    const at::Tensor* field = state.find(name);
    if (field) fields.push_back({std::string(name), field->sizes().vec(), field->scalar_type(), false});
  };
  const auto make = [&](const char* name, std::vector<int64_t> shape) {
    fields.push_back({name, std::move(shape), dtype_, true});
  };
  const auto make_hidden = [&](const char* name, const char* ids) {
    const at::IntArrayRef shape = state.at(ids).sizes();
    make(name, {shape[0], shape[1], t5_.d_model});
  };
  const auto make_bias = [&](const char* mask, const char* ids, const Stack& stack) {
    const at::IntArrayRef shape = state.at(ids).sizes();
    const int64_t heads = stack.blocks[0]->self_attention->inner->n_heads;
    make(kPositionBias, {state.has(mask) ? shape[0] : 1, heads, shape[1], shape[1]});
  };
  if (index == 0) {
    for (const auto& field : state) pass(field.first);
    return fields;
  }
  const size_t encoder_end = 1 + encoder_->blocks.size();  // or the epilogue
  const bool decodes = index > encoder_end;
  pass(nn::kAttentionMask);
  if (index <= encoder_end + 1) pass(kDecoderAttentionMask);
  make_hidden(nn::kHidden, decodes ? kDecoderInputIds : nn::kInputIds);
  if (decodes) {
    for (const char* name : {kEncoderOutput, kSource}) make_hidden(name, nn::kInputIds);
    if (index > encoder_end + 1) make_bias(kDecoderAttentionMask, kDecoderInputIds, *decoder_);
  } else {
    if (decoder_) make_hidden(kDecoderHidden, kDecoderInputIds);
    if (index > 1) make_bias(nn::kAttentionMask, nn::kInputIds, *encoder_);
  }
  return fields;
}

std::vector<nn::SequenceLength> T5Model::lengths(const Batch& batch) const {
  const auto length = [&](const char* name, const char* field) {
    const at::IntArrayRef ids = batch.at(field).sizes();
    return nn::SequenceLength{name, ids[1], ids[0]};
  };
  std::vector<nn::SequenceLength> lengths = {length("encoder", nn::kInputIds)};
  if (decoder_)
    lengths.push_back(length("decoder", batch.has(kDecoderInputIds) ? kDecoderInputIds : nn::kLabels));
  return lengths;
}

std::vector<nn::Tie> T5Model::ties() const {
  const std::string prefix(architecture_.prefix), shared = prefix + "shared.weight";
  std::vector<nn::Tie> ties = head_->ties();
  ties.push_back({prefix + "encoder.embed_tokens.weight", shared});
  if (decoder_) ties.push_back({prefix + "decoder.embed_tokens.weight", shared});
  return ties;
}

nn::Initial T5Model::initial(std::string_view parameter) const {
  const double factor = t5_.initializer_factor;
  const auto normal_of = [&](int64_t channels) {
    return nn::Initial::normal(0, factor * inverse_root(channels));
  };
  if (parameter.ends_with("layer_norm.weight")) return nn::Initial::constant(factor);
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (parameter.ends_with(".q.weight")) return normal_of(t5_.d_model * t5_.d_kv);
  if (parameter.ends_with(".o.weight")) return normal_of(t5_.num_heads * t5_.d_kv);
  if (parameter.ends_with(".wo.weight")) return normal_of(t5_.d_ff);
  if (parameter.find(".block.") != std::string_view::npos) return normal_of(t5_.d_model);
  return nn::Initial::normal(0, factor);  // the embedding and the heads
}

bool T5Model::ignored_on_load(std::string_view entry) const {
  if (!decoder_ && entry.starts_with("decoder.")) return true;
  return entry == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
}

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<T5Model>(config, nn::find_architecture(kArchitectures, "t5", architecture), dtype);
}

}  // namespace weft::t5
