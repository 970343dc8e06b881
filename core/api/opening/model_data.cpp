#include "opening/model_data.hpp"

#include "base/text.hpp"
#include "loader/counted_positions.hpp"
#include "text/encoded_text.hpp"
#include "text/text_documents.hpp"
#include "weft/nn/image_model.hpp"
#include "weft/nn/token_model.hpp"

namespace weft {

const nn::TokenModel& require_vocabulary(const Model& model, std::string_view user) {
  if (const nn::TokenModel* tokens = nn::find_token_model(model.module())) return *tokens;
  fail(WEFT_INVALID_ARGUMENT, "{} does not read text alone, as {} does: give a causal language model",
       model.architecture(), user);
}

int64_t chosen_length(const Model& model, const nn::TokenModel& tokens, int64_t given,
                      const SettingName& called) {
  const int64_t longest = tokens.max_sequence_length();
  const int64_t length = given == 0 ? longest : given;
  if (length <= 0)
    fail(WEFT_INVALID_ARGUMENT, "{} takes sequences of any length: give {}", model.architecture(),
         called("sequence_length"));
  if (longest > 0 && length > longest)
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, but {} takes at most {} positions", called("sequence_length"),
         length, model.architecture(), longest);
  return length;
}

namespace {

// Throws if a sample of one token has no label, because the model predicts the next token.
void require_label(const Model& model, const data::Dataset& dataset, const SettingName& called) {
  for (const nn::LossCount& term : model.module().counts(dataset.get({0})))
    if (!(term.count > 0))
      fail(WEFT_INVALID_ARGUMENT, "{} is 1, but {} predicts the next token of each sequence: give at least 2",
           called("sequence_length"), model.architecture());
}

}  // namespace

std::shared_ptr<data::Dataset> open_samples(const Model& model, const std::string& path,
                                            int64_t sequence_length, data::TokenType type,
                                            const SettingName& called) {
  const bool is_tensors = path.ends_with(".safetensors");
  const nn::TokenModel* tokens = nn::find_token_model(model.module());
  if (tokens == nullptr) {
    if (sequence_length != 0)
      fail(WEFT_INVALID_ARGUMENT, "{} is {}, but {} does not read text alone; leave it out",
           called("sequence_length"), sequence_length, model.architecture());
    if (!is_tensors)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: {} does not read text alone; give its inputs under their names in a .safetensors file{}",
           path, model.architecture(),
           nn::find_image_model(model.module()) ? ", or a folder with a folder of images per class" : "");
    return data::tensors(path);
  }
  if (is_tensors) {
    auto dataset = data::open(path, sequence_length, type, tokens->vocabularies());
    const std::optional<nn::Decoding> decoding = model.module().decoding();
    const bool counts =
        tokens->continues_text() && decoding && decoding->encoder.empty() && !decoding->positions.empty();
    return counts ? data::with_counted_positions(std::move(dataset)) : dataset;
  }
  const int64_t length = chosen_length(model, *tokens, sequence_length, called);
  auto dataset = data::open(path, length, type, tokens->vocabularies());
  if (length == 1) require_label(model, *dataset, called);
  return dataset;
}

std::shared_ptr<data::Dataset> open_dataset(const Model& model, const std::string& path,
                                            int64_t sequence_length, data::TokenType type,
                                            const SettingName& called) {
  const nn::TokenModel* tokens = nn::find_token_model(model.module());
  if (tokens != nullptr && !tokens->continues_text() && !path.ends_with(".safetensors"))
    fail(WEFT_INVALID_ARGUMENT,
         "{}: {} does not predict the next token, so text has no labels for it; for labels of your own open "
         "it as a class with a head ({} ...ForSequenceClassification), or give its inputs and labels under "
         "their names in a .safetensors file",
         path, model.architecture(), called("architecture"));
  return open_samples(model, path, sequence_length, type, called);
}

namespace {

// Completes the options of text for a model. Throws unless it reads text, and its vocabulary is that of the
// tokenizer or of bytes.
const nn::TokenModel& complete(const Model& model, const std::string& path,
                               const std::optional<Tokenizer>& tokenizer, const SettingName& called,
                               data::TextOptions& text) {
  const nn::TokenModel* tokens = nn::find_token_model(model.module());
  if (tokens == nullptr)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: {} does not read text alone; give its inputs under their names in a .safetensors file", path,
         model.architecture());
  text.vocabulary = tokens->vocabularies().front().size;
  if (!tokenizer && text.vocabulary != 256)
    fail(WEFT_FAILED_PRECONDITION,
         "{}: {} has a vocabulary of {}, and its folder has no tokenizer; give the folder of one with {}",
         path, model.architecture(), text.vocabulary, called("tokenizer"));
  text.sequence_length = chosen_length(model, *tokens, text.sequence_length, called);
  return *tokens;
}

}  // namespace

std::shared_ptr<data::Dataset> open_text_dataset(const Model& model,
                                                 const std::vector<data::TextSource>& sources,
                                                 const std::optional<Tokenizer>& tokenizer,
                                                 data::TextOptions text, const ObjectiveOptions& options,
                                                 const SettingName& called) {
  const nn::TokenModel& tokens = complete(model, sources.front().path, tokenizer, called, text);
  const std::optional<nn::Decoding> decoding = model.module().decoding();
  text.positions = decoding && !decoding->positions.empty();
  text.source_and_target = decoding && !decoding->encoder.empty();
  return label_text(model, options, called, [&](const TextLabels& labels) {
    if (labels.of_tokens && !tokens.continues_text())
      fail(WEFT_INVALID_ARGUMENT,
           "{}: {} does not predict the next token, so text has no labels for it; for labels of your own "
           "open it as a class with a head ({} ...ForSequenceClassification), or give its inputs and labels "
           "under their names in a .safetensors file",
           sources.front().path, model.architecture(), called("architecture"));
    text.labels = labels.of_tokens;
    text.sentence_labels = labels.of_sentences;
    if (!tokenizer) return OpenedText{data::open_bytes(sources, text)};
    return OpenedText{data::open_text(sources, *tokenizer, text),
                      data::special_ids_of(*tokenizer, !text.sentence_labels.empty()),
                      tokenizer->id_of(Tokenizer::Role::kMask)};
  });
}

std::shared_ptr<data::TextDocuments> open_text_documents(const Model& model,
                                                         const std::vector<data::TextSource>& sources,
                                                         const std::optional<Tokenizer>& tokenizer,
                                                         data::TextOptions text,
                                                         const ObjectiveOptions& options,
                                                         const SettingName& called) {
  const nn::TokenModel* tokens = nn::find_token_model(model.module());
  const std::optional<nn::Decoding> decoding = model.module().decoding();
  if (tokens == nullptr || !tokens->continues_text() || model.module().perplexity_term().empty() ||
      !decoding || !decoding->encoder.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "{} asks for the perplexity of each document, which a causal language model has, but {} does not "
         "predict the next token of a text; leave it out",
         called("by_document"), model.architecture());
  complete(model, sources.front().path, tokenizer, called, text);
  std::shared_ptr<data::TextDocuments> documents;
  label_text(model, options, called, [&](const TextLabels& labels) {
    if (!labels.of_tokens)
      fail(WEFT_INVALID_ARGUMENT, "{} measures how tokens follow each other, but {} is {}; leave it out",
           called("by_document"), called("objective"), options.objective);
    documents = data::open_documents(sources, tokenizer, text);
    return OpenedText{documents};
  });
  return documents;
}

}  // namespace weft
