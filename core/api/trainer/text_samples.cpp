// TextSamples: what a language model writes while it is trained.
#include "base/text.hpp"
#include "opening/model_state.hpp"
#include "weft/hooks.hpp"
#include "weft/nn/token_model.hpp"

namespace weft {

namespace {

// Returns whether the tokens of a model without a tokenizer are bytes.
bool has_bytes(const Model& model) {
  const nn::TokenModel* const tokens = nn::find_token_model(model.module());
  return tokens != nullptr && tokens->vocabularies().front().size == 256;
}

std::vector<int64_t> ids_of(const Model& model, const std::string& text) {
  if (const std::optional<Tokenizer>& tokenizer = model.shared().tokenizer) return tokenizer->encode(text);
  if (!has_bytes(model))
    fail(WEFT_INVALID_ARGUMENT,
         "text samples: {} has no tokenizer to turn the prompt \"{}\" into ids; give the folder of one",
         model.architecture(), printable(text, 60));
  std::vector<int64_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string text_of(const Model& model, const std::vector<int64_t>& ids) {
  if (const std::optional<Tokenizer>& tokenizer = model.shared().tokenizer) return tokenizer->decode(ids);
  std::string text;
  for (const int64_t id : ids) text += static_cast<char>(id);
  return text;
}

}  // namespace

TextSamples::TextSamples(std::vector<std::string> prompts, int64_t every, GenerationOptions options)
    : prompts_(std::move(prompts)), every_(every), options_(std::move(options)) {
  if (prompts_.empty() || every < 1)
    fail(WEFT_INVALID_ARGUMENT,
         "text samples: there are {} prompts, every {} steps; give at least one prompt and 1 step",
         prompts_.size(), every);
}

void TextSamples::begin(Trainer& trainer) {
  ids_.clear();
  for (const std::string& prompt : prompts_) ids_.push_back(ids_of(trainer.job().model, prompt));
  GenerationOptions one = options_;
  one.max_new_tokens = 1;
  generate(trainer.job(), ids_, one);  // what cannot generate is an error before the first step
}

void TextSamples::end_step(Trainer& trainer) {
  const bool due = trainer.step() % every_ == 0 || trainer.is_last_step();
  if (!due || !trainer.result().updated || trainer.result().stop) return;
  const Generation generation = generate(trainer.job(), ids_, options_);
  for (const GeneratedSequence& sequence : generation.sequences) {
    const std::string text = text_of(trainer.job().model, sequence.ids);
    trainer.booster().world().print_on_master(
        fmt::format("step {}: {} -> {}", trainer.step(),
                    printable(prompts_[static_cast<size_t>(sequence.prompt)], 200), printable(text, 2000)));
  }
}

}  // namespace weft
