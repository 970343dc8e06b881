#include "opening/text_data.hpp"

#include <charconv>
#include <filesystem>

#include "base/duration.hpp"
#include "base/settings.hpp"
#include "base/text.hpp"
#include "checkpoint/data_state.hpp"
#include "checkpoint/training_state.hpp"
#include "opening/model_data.hpp"
#include "opening/model_state.hpp"
#include "text/records.hpp"
#include "weft/nn/token_model.hpp"

namespace weft {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Returns the source that a word of "data" stands for: PATH, or PATH=WEIGHT. A file whose name has a = comes
// first.
data::TextSource source_of(const DataOpener& opener, const std::string& word) {
  const size_t equals = word.rfind('=');
  std::error_code ignored;
  if (equals == std::string::npos || fs::exists(word, ignored)) return {word, std::nullopt};
  double weight = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data() + equals + 1, end, weight);
  if (error != std::errc() || rest != end)
    fail(WEFT_INVALID_ARGUMENT, "{} {}: the weight is \"{}\", must be a number: PATH=0.3",
         opener.called("data"), word, word.substr(equals + 1));
  return {word.substr(0, equals), weight};
}

}  // namespace

TextData::TextData(const DataOpener& opener) : opener_(opener) {
  read_sources();
  read_options();
  const bool is_other =
      sources_.size() == 1 && (file().ends_with(".bin") || file().ends_with(".safetensors"));
  find_tokenizer();
  std::error_code ignored;
  // Bytes of one file need no cache.
  const bool is_bytes = !tokenizer_ && sources_.size() == 1 && !sources_.front().weight &&
                        !data::has_records(file()) && !fs::is_directory(file(), ignored) &&
                        (fs::exists(file(), ignored) || file().find_first_of("*?[") == std::string::npos) &&
                        options_.held_out == 0 && !opener.settings.given("packing") &&
                        !opener.settings.given("attention") && !opener.settings.given("long_documents") &&
                        !opener.settings.flag("by_document");
  wanted_ = !is_other && !is_bytes;
  const std::string kind = !is_other ? "text" : file().ends_with(".bin") ? "tokens" : "tensors";
  opener.refuse_others(kind, fmt::format("{} is read as {}", file(), kind));
  if (!wanted_ && sources_.front().weight)
    fail(WEFT_INVALID_ARGUMENT, "{}: a weight is for text with a tokenizer, but this file is read as it is",
         file());
  options_.note = [world = opener.world](const std::string& note) { world.print_on_master(note); };
}

void TextData::read_sources() {
  for (const std::string& word : opener_.settings.words("data")) sources_.push_back(source_of(opener_, word));
}

void TextData::read_options() {
  using data::Packing;
  const Settings& settings = opener_.settings;
  const std::string packing = settings.text("packing");
  options_.sequence_length = opener_.sequence_length();
  options_.packing = packing == "stream" ? Packing::kStream
                     : packing == "none" ? Packing::kNone
                                         : Packing::kDocuments;
  packing_is_given_ = settings.given("packing");
  options_.drop_long_documents = settings.text("long_documents") == "drop";
  options_.held_out = opener_.held_out();
  options_.part = opener_.part(options_.held_out);
  options_.skip_broken_lines = opener_.settings.flag("skip_broken_lines");
  if (opener_.settings.given("timeout"))
    options_.timeout = milliseconds_of(opener_.called("timeout").c_str(), opener_.settings.real("timeout"));
}

void TextData::find_tokenizer() {
  const Settings& settings = opener_.settings;
  if (settings.flag("bytes")) return;
  const bool needs_no_tokenizer = file().ends_with(".bin") || file().ends_with(".safetensors");
  try {
    tokenizer_ = opener_.tokenizer();
  } catch (const Error& error) {
    if (settings.given("tokenizer") || !needs_no_tokenizer) throw;
    opener_.world.print_on_master(fmt::format("the tokenizer of {} is not saved with the model: {}",
                                              settings.text("model"), error.what()));
  }
}

data::TextOptions TextData::options_for(const ObjectiveOptions& objective) const {
  data::TextOptions options = options_;
  options.seed = objective.seed;
  options.progress = opener_.progress;
  return options;
}

std::shared_ptr<data::Dataset> TextData::open(const ObjectiveOptions& objective) const {
  const Model& model = opener_.model;
  const bool pairs = makes_pairs(model, objective, opener_.settings.name());
  if (packing_is_given_ && pairs)
    fail(WEFT_INVALID_ARGUMENT,
         "{} has no effect here, because {} is trained on pairs of sentences, each of which is a sample; "
         "leave it out",
         opener_.called("packing"), model.architecture());
  data::TextOptions options = options_for(objective);
  if (options.packing == data::Packing::kDocuments && !pairs) options.attention = attention();
  auto opened = open_text_dataset(model, sources_, tokenizer_, options, objective, opener_.settings.name());
  check_attention(*opened);
  return opened;
}

std::optional<data::PackedAttention> TextData::attention() const {
  const nn::TokenModel* const tokens = nn::find_token_model(opener_.model.module());
  if (tokens == nullptr || !tokens->separates_documents()) return std::nullopt;
  const Settings& settings = opener_.settings;
  if (settings.given("attention"))
    return settings.text("attention") == "sample" ? data::PackedAttention::kSample
                                                  : data::PackedAttention::kDocument;
  // Data that is opened later, to evaluate what is trained, is read in the same way.
  std::optional<data::PackedAttention>& kept = opener_.model.shared().packed_attention;
  if (const auto resumed = resumed_attention()) kept = resumed;
  return kept.value_or(data::PackedAttention::kDocument);
}

std::optional<data::PackedAttention> TextData::resumed_attention() const {
  if (opener_.resumed.empty()) return std::nullopt;
  const auto state = checkpoint::saved_state(fs::path(opener_.resumed) / checkpoint::kStateFolder);
  if (!state || !state->contains("data")) return std::nullopt;
  const json& data = state->at("data");
  if (checkpoint::saved_attention(data, opener_.model.module()) != "sample")
    return data::PackedAttention::kDocument;
  if (!data.contains("attention"))
    options_.note(fmt::format(
        "{}: this training began with a Weft in which tokens of packed documents attend to the documents "
        "before theirs, and goes on so; give {} document to end that",
        opener_.resumed, opener_.called("attention")));
  return data::PackedAttention::kSample;
}

void TextData::check_attention(const data::Dataset& opened) const {
  const std::string called = opener_.called("attention");
  const bool given = opener_.settings.given("attention"), packed = !opened.attention().empty();
  if (given && !packed)
    fail(WEFT_INVALID_ARGUMENT,
         "{} is for documents that follow each other in a sample ({} documents), but "
         "each sample is one text; leave it out",
         called, opener_.called("packing"));
  const nn::TokenModel* const tokens = nn::find_token_model(opener_.model.module());
  if (!packed || tokens == nullptr || tokens->separates_documents()) return;
  if (given)
    fail(WEFT_INVALID_ARGUMENT,
         "{} is {}, but {} does not keep documents of a sample apart; leave it out, or give {} none", called,
         opener_.settings.text("attention"), opener_.model.architecture(), opener_.called("packing"));
  options_.note(
      fmt::format("{} does not keep documents of a sample apart: tokens attend to the documents "
                  "before theirs; give {} none to avoid that",
                  opener_.model.architecture(), opener_.called("packing")));
}

std::shared_ptr<data::TextDocuments> TextData::open_documents(const ObjectiveOptions& objective) const {
  return weft::open_text_documents(opener_.model, sources_, tokenizer_, options_for(objective), objective,
                                   opener_.settings.name());
}

}  // namespace weft
