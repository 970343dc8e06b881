#include "opening/text_data.hpp"

#include <charconv>
#include <filesystem>

#include "base/duration.hpp"
#include "base/settings.hpp"
#include "base/text.hpp"
#include "opening/model_data.hpp"
#include "opening/model_state.hpp"
#include "text/text_files.hpp"

namespace weft {

using namespace settings;
namespace fs = std::filesystem;

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

template <class Value>
Value choice(const DataOpener& opener, const char* key,
             const std::vector<std::pair<std::string, Value>>& known) {
  if (!given(opener.settings, key)) return known.front().second;
  const std::string name = text(opener.settings, key);
  std::vector<std::string> names;
  for (const auto& [text, value] : known) {
    if (text == name) return value;
    names.push_back(text);
  }
  fail(WEFT_INVALID_ARGUMENT, "{} is \"{}\", must be {}{}", opener.called(key), printable(name, 60),
       fmt::join(names, " or "), did_you_mean(name, names));
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
                        !data::has_json_lines(file()) && !fs::is_directory(file(), ignored) &&
                        (fs::exists(file(), ignored) || file().find_first_of("*?[") == std::string::npos) &&
                        options_.held_out == 0 && !given(opener.settings, "packing") &&
                        !given(opener.settings, "long_documents") && !flag(opener.settings, "by_document");
  wanted_ = !is_other && !is_bytes;
  if (is_other)
    opener.refuse({"bytes"}, fmt::format("is for text, but {} is read as it is; leave it out", file()));
  if (!wanted_) refuse_without_effect();
  options_.note = [world = opener.world](const std::string& note) { world.print_on_master(note); };
}

void TextData::read_sources() {
  const nlohmann::json& words = opener_.settings.at("data");
  if (words.is_string()) {
    sources_ = {source_of(opener_, words.get<std::string>())};
    return;
  }
  for (const nlohmann::json& word : words) sources_.push_back(source_of(opener_, word.get<std::string>()));
}

void TextData::read_options() {
  using data::Packing, data::Part;
  options_.sequence_length = opener_.sequence_length();
  options_.packing = choice<Packing>(
      opener_, "packing",
      {{"documents", Packing::kDocuments}, {"stream", Packing::kStream}, {"none", Packing::kNone}});
  packing_is_given_ = given(opener_.settings, "packing");
  options_.drop_long_documents = choice<bool>(opener_, "long_documents", {{"cut", false}, {"drop", true}});
  options_.held_out = opener_.held_out();
  options_.part = choice<Part>(
      opener_, "part", {{"all", Part::kAll}, {"train", Part::kTraining}, {"held-out", Part::kHeldOut}});
  if (options_.held_out > 0 && !given(opener_.settings, "part")) options_.part = opener_.held_out_part;
  options_.skip_broken_lines = flag(opener_.settings, "skip_broken_lines");
  if (given(opener_.settings, "timeout"))
    options_.timeout =
        milliseconds_of(opener_.called("timeout").c_str(), real(opener_.settings, "timeout", 0));
}

void TextData::find_tokenizer() {
  const nlohmann::json& settings = opener_.settings;
  if (flag(settings, "bytes")) {
    opener_.refuse({"tokenizer"},
                   fmt::format("has no effect with {}, which takes the bytes of text as tokens; "
                               "leave one of them out",
                               opener_.called("bytes")));
    return;
  }
  const bool needs_no_tokenizer = file().ends_with(".bin") || file().ends_with(".safetensors");
  try {
    tokenizer_ = opener_.tokenizer();
  } catch (const Error& error) {
    if (given(settings, "tokenizer") || !needs_no_tokenizer) throw;
    opener_.world.print_on_master(fmt::format("the tokenizer of {} is not saved with the model: {}",
                                              text(settings, "model"), error.what()));
  }
}

void TextData::refuse_without_effect() const {
  opener_.refuse({"packing", "long_documents", "held_out", "part"},
                 fmt::format("is for text with a tokenizer, but {} is read as it is; leave it out", file()));
  if (sources_.front().weight)
    fail(WEFT_INVALID_ARGUMENT, "{}: a weight is for text with a tokenizer, but this file is read as it is",
         file());
}

data::TextOptions TextData::options_for(const ObjectiveOptions& objective) const {
  data::TextOptions options = options_;
  options.seed = objective.seed;
  options.progress = opener_.progress;
  return options;
}

std::shared_ptr<data::Dataset> TextData::open(const ObjectiveOptions& objective) const {
  const Model& model = opener_.model;
  if (packing_is_given_ && makes_pairs(model, objective, opener_.called))
    fail(WEFT_INVALID_ARGUMENT,
         "{} has no effect here, because {} is trained on pairs of sentences, each of which is a sample; "
         "leave it out",
         opener_.called("packing"), model.architecture());
  return open_text_dataset(model, sources_, tokenizer_, options_for(objective), objective, opener_.called);
}

std::shared_ptr<data::TextDocuments> TextData::open_documents(const ObjectiveOptions& objective) const {
  if (!is_wanted())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: {} measures the documents of text, and a file of {} has none; give text files, JSON lines or a "
         "folder of them, or leave it out",
         file(), opener_.called("by_document"), file().ends_with(".bin") ? "tokens" : "tensors");
  return weft::open_text_documents(opener_.model, sources_, tokenizer_, options_for(objective), objective,
                                   opener_.called);
}

}  // namespace weft
