#include "weft/nn/encoder_decoder.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "weft/nn/key_value_cache.hpp"

namespace weft::nn {

namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void append(std::vector<std::string>& names, const std::vector<std::string>& more) {
  names.insert(names.end(), more.begin(), more.end());
}

// Returns true if the units run for tokens that continue earlier ones, so that the encoder has run before.
bool continues() {
  const KeyValueCache* const cache = KeyValueCache::current();
  return cache != nullptr && cache->past() > 0;
}

// A unit of the encoder. Its attention leaves the cache to the decoder.
class EncoderUnit final : public Unit {
 public:
  explicit EncoderUnit(std::unique_ptr<Unit> unit) : Unit(unit->name()), unit_(std::move(unit)) {
    for (torch::nn::Module* module : unit_->modules()) uses(*module);
  }
  void forward(State& state) override {
    if (continues()) return;
    const KeyValueCache::Suspension suspended(KeyValueCache::current());
    unit_->forward(state);
  }

 private:
  const std::unique_ptr<Unit> unit_;
};

std::vector<std::unique_ptr<Unit>> encoder_units(std::vector<std::unique_ptr<Unit>> blocks) {
  for (std::unique_ptr<Unit>& block : blocks) block = std::make_unique<EncoderUnit>(std::move(block));
  return blocks;
}

// The unit between the encoder's last block and the decoder's first one: replaces kHidden by the decoder's.
class EncoderEnd final : public Unit {
 public:
  EncoderEnd(LastLayers last, Identity& source, std::vector<std::string> shared_fields)
      : Unit("encoder.end"),
        last_(std::move(last.apply)),
        source_(source),
        shared_fields_(std::move(shared_fields)) {
    for (torch::nn::Module* module : last.modules) uses(*module);
    uses(source);
  }

  void forward(State& state) override {
    KeyValueCache* const cache = KeyValueCache::current();
    if (continues()) {
      state.set(kHidden, take(state, kDecoderHidden));
      for (const auto& [name, field] : cache->kept()) state.set(name, field);
      return;
    }
    const at::Tensor encoded = last_(state.at(kHidden));
    state.set(kHidden, take(state, kDecoderHidden));
    for (const std::string& name : shared_fields_) state.erase(name);
    state.set(kEncoderOutput, encoded);
    state.set(kSource, source_(encoded));
    if (cache == nullptr) return;
    for (const char* name : {kEncoderOutput, kSource, kAttentionMask})
      if (const at::Tensor* field = state.find(name)) cache->keep(name, *field);
  }

 private:
  const Head::Finish last_;
  const Identity& source_;
  const std::vector<std::string> shared_fields_;
};

}  // namespace

SequencePlaces::SequencePlaces(torch::nn::Module& stack, bool feeds_decoder) {
  const auto place = [&](const char* name) {
    return stack.register_module(name, std::make_shared<Identity>());
  };
  stream_begin = place("stream_begin");
  stream_end = place("stream_end");
  if (feeds_decoder) source = place("source");
}

EncoderDecoderModel::EncoderDecoderModel(const Config& config, ModelTraits traits, ShiftedLabels shifted)
    : ComposedModel(config, std::move(traits)), shifted_(shifted) {}

void EncoderDecoderModel::assemble(std::unique_ptr<Unit> prologue, std::unique_ptr<Inputs> encoder_inputs,
                                   Stack encoder, std::unique_ptr<Head> head) {
  encoder_inputs_ = std::move(encoder_inputs);
  add(std::move(prologue));
  add_all(std::move(encoder.blocks));
  encoder_end_ = num_units();
  add_epilogue(std::move(encoder.last), *encoder.places.stream_end, {}, std::move(head));
}

void EncoderDecoderModel::assemble(std::unique_ptr<Unit> prologue, std::unique_ptr<Inputs> encoder_inputs,
                                   Stack encoder, std::unique_ptr<TokenInputs> decoder_inputs, Stack decoder,
                                   std::unique_ptr<Head> head) {
  encoder_inputs_ = std::move(encoder_inputs);
  decoder_inputs_ = std::move(decoder_inputs);
  encoder_stream_end_ = encoder.places.stream_end;
  add(std::move(prologue));
  add_all(encoder_units(std::move(encoder.blocks)));
  encoder_end_ = num_units();
  add(std::make_unique<EncoderEnd>(std::move(encoder.last), *encoder.places.source,
                                   std::move(encoder.shared_fields)));
  add_all(std::move(decoder.blocks));
  add_epilogue(std::move(decoder.last), *decoder.places.stream_end, {}, std::move(head), {kEncoderOutput});
}

State EncoderDecoderModel::input(const Batch& batch) const {
  const BatchFields fields(batch, traits().architecture);
  std::vector<std::string> known = encoder_inputs_->fields();
  if (has_decoder()) append(known, decoder_inputs_->fields());
  append(known, head().fields());
  fields.refuse_others(known);

  State state;
  encoder_inputs_->read(fields, state);
  if (has_decoder()) {
    const Batch completed = with_decoder_ids(fields);
    decoder_inputs_->read(BatchFields(completed, traits().architecture), state);
    const int64_t samples = encoder_inputs_->shape(batch)[0], own = decoder_positions(batch)[0];
    if (own != samples)
      fields.refuse(fields.has(kDecoderInputIds) ? kDecoderInputIds : kLabels,
                    fmt::format("it has {} samples, but {} {}", own, encoder_inputs_->fields()[0], samples));
  }
  add_fields(fields, state);
  head().prepare(fields, head_positions(batch), state);
  return state;
}

std::optional<Decoding> EncoderDecoderModel::decoding() const {
  if (!has_decoder()) return std::nullopt;
  Decoding decoding = decoder_inputs_->decoding();
  decoding.encoder = encoder_inputs_->fields();
  return decoding;
}

State EncoderDecoderModel::continued_input(const Batch& batch) const {
  const BatchFields fields(batch, traits().architecture);
  fields.refuse_others(decoder_inputs_->fields());
  State state;
  decoder_inputs_->read(fields, state);
  return state;
}

Batch EncoderDecoderModel::with_decoder_ids(const BatchFields& batch) const {
  Batch completed = batch.batch();
  if (batch.has(kDecoderInputIds)) return completed;
  const bool has_labels = contains(head().fields(), kLabels);
  if (!has_labels || !batch.has(kLabels))
    batch.refuse(kDecoderInputIds,
                 has_labels ? "the batch has neither this nor labels to make it of" : "the batch has none");
  completed.set(kDecoderInputIds, shifted_right(decoder_inputs_->checked_ids(batch, kLabels, true)));
  return completed;
}

// Returns the labels one position to the right, behind the id with which the decoder begins.
at::Tensor EncoderDecoderModel::shifted_right(const at::Tensor& labels) const {
  if (!shifted_.padding)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: its \"pad_token_id\" is null, which labels become {} with; set it, or give {}",
         config().origin(), kDecoderInputIds, kDecoderInputIds);
  if (!shifted_.start)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: it has no \"decoder_start_token_id\", which labels become {} with; set it (often it is the "
         "\"pad_token_id\", {}), or give {}",
         config().origin(), kDecoderInputIds, *shifted_.padding, kDecoderInputIds);
  at::Tensor ids = labels.roll(1, -1);
  ids.select(-1, 0).fill_(*shifted_.start);
  return ids.masked_fill_(ids.eq(kIgnored), *shifted_.padding);
}

std::vector<Objective> EncoderDecoderModel::objectives() const {
  return has_decoder() ? std::vector<Objective>() : ComposedModel::objectives();
}

State EncoderDecoderModel::outputs(const State& last) const {
  State outputs = last;
  if (has_decoder()) outputs.set(kEncoderOutput, (*encoder_stream_end_)(last.at(kEncoderOutput)));
  return outputs;
}

std::vector<int64_t> EncoderDecoderModel::decoder_positions(const Batch& batch) const {
  return batch.at(batch.has(kDecoderInputIds) ? kDecoderInputIds : kLabels).sizes().vec();
}

std::vector<int64_t> EncoderDecoderModel::head_positions(const Batch& batch) const {
  return has_decoder() ? decoder_positions(batch) : encoder_inputs_->shape(batch);
}

std::vector<SequenceLength> EncoderDecoderModel::lengths(const Batch& batch) const {
  const auto length = [](const char* name, const std::vector<int64_t>& shape) {
    return SequenceLength{name, shape.back(), shape[0]};
  };
  std::vector<SequenceLength> lengths;
  if (!has_decoder() || has_encoder_inputs(batch))
    lengths.push_back(length("encoder", encoder_inputs_->shape(batch)));
  if (has_decoder()) lengths.push_back(length("decoder", decoder_positions(batch)));
  return lengths;
}

std::optional<Batch> EncoderDecoderModel::example(int64_t samples, int64_t positions) const {
  Batch batch;
  encoder_inputs_->add_example(samples, positions, batch);
  if (has_decoder()) decoder_inputs_->add_example(samples, positions, batch);
  return batch;
}

std::vector<ComposedModel::Passed> EncoderDecoderModel::made_fields(const Batch& batch, const State&) const {
  using Division = FieldShape::Division;
  const size_t last = num_units() - 1;
  const FieldShape encoded = hidden_field(encoder_inputs_->shape(batch), "encoder");
  std::vector<Passed> made = {{encoded, 1, encoder_end_}};
  if (!has_decoder()) return made;
  const auto named = [](FieldShape field, const char* name, Division division) {
    field.name = name;
    field.division = division;
    return field;
  };
  const FieldShape decoded = hidden_field(decoder_positions(batch), "decoder");
  made.push_back({decoded, encoder_end_ + 1, last});
  made.push_back({named(decoded, kDecoderHidden, Division::kPositions), 1, encoder_end_});
  made.push_back({named(encoded, kEncoderOutput, Division::kPositions), encoder_end_ + 1, last});
  made.push_back({named(encoded, kSource, Division::kRegion), encoder_end_ + 1, last});
  return made;
}

size_t EncoderDecoderModel::last_reader(std::string_view field) const {
  const bool consumed = contains(encoder_inputs_->consumed(), field) ||
                        (has_decoder() && contains(decoder_inputs_->consumed(), field));
  return consumed ? 0 : num_units() - 1;
}

}  // namespace weft::nn
