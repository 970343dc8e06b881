#include "opening/label_data.hpp"

#include <algorithm>
#include <cmath>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "labels/span_tags.hpp"
#include "loader/random.hpp"
#include "loader/shared_checks.hpp"
#include "opening/model_data.hpp"
#include "opening/model_labels.hpp"
#include "opening/model_state.hpp"
#include "text/threads.hpp"
#include "weft/nn/config_values.hpp"
#include "weft/nn/token_model.hpp"

namespace weft {

using data::LabelForm;
using data::Problem;

bool learns_labels_of_text(const Model& model) {
  return nn::find_token_model(model.module()) != nullptr &&
         model.module().labelled() != nn::Labelled::kNothing;
}

LabelData::LabelData(const DataOpener& opener, bool labels)
    : opener_(opener), tokenizer_(opener.tokenizer()) {
  const std::vector<std::string> paths = opener.settings.words("data");
  opener.refuse_others("labels", fmt::format("{} learns the labels of rows", opener.model.architecture()));
  if (opener.settings.given("objective"))
    fail(WEFT_INVALID_ARGUMENT, "{} makes labels, but {} learns those of the rows; leave it out",
         opener.called("objective"), opener.model.architecture());
  if (!tokenizer_)
    fail(WEFT_FAILED_PRECONDITION,
         "{}: the rows are text, and there is no tokenizer in the folder of {}; give the folder of one with "
         "{}",
         paths.front(), opener.model.architecture(), opener.called("tokenizer"));
  read_settings(labels);
  rows_ = data::read_labelled_rows(paths, reading_);
  choose_rows();
  const Settings& settings = opener.settings;
  const std::string problem = settings.text("problem");
  if (labels && opener.trains()) {
    WantedLabels wanted;
    if (!problem.empty()) wanted.problem = data::problem_named(problem);
    wanted.new_head = settings.flag("new_head");
    wanted.padding = encoding().padding();
    space_ = opener.model.shared().labels ? *opener.model.shared().labels
                                          : give_labels(opener.model, rows_, wanted, settings.name());
    opener.model.shared().labels = space_;
    reading_.note(space_.problem == Problem::kRegression
                      ? fmt::format("{}: the labels are numbers", rows_.name())
                      : fmt::format("{}: {} classes: {}", rows_.name(), space_.names.size(),
                                    printable(fmt::format("{}", fmt::join(space_.names, ", ")))));
  } else {
    space_ = opener.model.shared().labels ? *opener.model.shared().labels : labels_of(opener.model);
  }
}

void LabelData::read_settings(bool labels) {
  const Settings& settings = opener_.settings;
  reading_.labels = labels;
  reading_.columns.text = settings.text("text_column", reading_.columns.text);
  reading_.columns.second_text = settings.text("second_text_column");
  reading_.columns.label = settings.text("label_column", reading_.columns.label);
  reading_.columns.of_words = opener_.model.module().labelled() == nn::Labelled::kTokens;
  reading_.columns.words = settings.text("tokens_column", reading_.columns.words);
  reading_.columns.tags = settings.text("tags_column", reading_.columns.tags);
  labels_all_subwords_ = settings.text("label_subwords") == "all";
  refuse_other_columns();
  reading_.skip_broken_lines = settings.flag("skip_broken_lines");
  reading_.note = [world = opener_.world](const std::string& note) { world.print_on_master(note); };
}

void LabelData::refuse_other_columns() const {
  const bool of_words = reading_.columns.of_words;
  const auto refuse = [&](const char* name) {
    if (opener_.settings.given(name))
      fail(WEFT_INVALID_ARGUMENT, "{} is for {}, but {} learns {}; leave it out", opener_.called(name),
           of_words ? "texts with labels" : "words with tags", opener_.model.architecture(),
           of_words ? "the tags of words" : "the labels of texts");
  };
  if (of_words)
    for (const char* name : {"second_text_column", "label_column", "problem"}) refuse(name);
  else
    for (const char* name : {"tokens_column", "tags_column", "label_subwords"}) refuse(name);
}

void LabelData::choose_rows() {
  const double held_out = opener_.held_out();
  const data::Part part = opener_.part(held_out);
  data::check_held_out(held_out, part, "rows", opener_.settings.name());
  for (size_t i = 0; i < rows_.rows.size(); ++i) {
    const bool is_held_out = data::is_held_out(rows_.rows[i].place.index, held_out, opener_.seed);
    if (part == data::Part::kAll || is_held_out == (part == data::Part::kHeldOut)) chosen_.push_back(i);
  }
  if (chosen_.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: none of its {} rows is in the {} part; give more rows, or another {}, which is {}",
         rows_.name(), rows_.rows.size(), part == data::Part::kHeldOut ? "held-out" : "training",
         opener_.called("held_out"), held_out);
}

data::TextEncoding LabelData::encoding() const {
  const Model& model = opener_.model;
  const nn::TokenModel& tokens = *nn::find_token_model(model.module());
  data::check_ids_fit(tokenizer_->name(), tokenizer_->vocabulary_size(), tokens.vocabularies().front().size);
  return {*tokenizer_, !reading_.columns.second_text.empty(),
          chosen_length(model, tokens, opener_.sequence_length(), opener_.settings.name()),
          nn::padding_token(model.config())};
}

LabelForm LabelData::form() const {
  if (!reading_.labels) return LabelForm::kNone;
  if (reading_.columns.of_words) return LabelForm::kTokens;
  if (space_.problem == Problem::kRegression) return LabelForm::kNumber;
  return space_.problem == Problem::kMultiLabel ? LabelForm::kIndicators : LabelForm::kClass;
}

std::vector<double> LabelData::weights_of_file(const std::string& path) const {
  const std::string source = fmt::format("{} {}", opener_.called("class_weights"), path);
  const nlohmann::json given = parse_json(read_file(path, size_t{1} << 24), source);
  if (!given.is_object())
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be an object: {{\"class\": weight}}", source,
         json_kind(given));
  for (const auto& [name, weight] : given.items())
    if (std::find(space_.names.begin(), space_.names.end(), name) == space_.names.end())
      fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is no class of the data{}", source, printable(name, 60),
           did_you_mean(name, space_.names));
  std::vector<double> weights;
  for (const std::string& name : space_.names) {
    const auto weight = given.find(name);
    if (weight == given.end())
      fail(WEFT_INVALID_ARGUMENT, "{}: the class \"{}\" has no weight", source, printable(name, 60));
    if (!weight->is_number() || !(weight->get<double>() >= 0) || !std::isfinite(weight->get<float>()))
      fail(WEFT_INVALID_ARGUMENT, "{}: the weight of \"{}\" is {}, must be a number that is at least 0",
           source, printable(name, 60), printable(weight->dump(), 40));
    weights.push_back(weight->get<double>());
  }
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; }))
    fail(WEFT_INVALID_ARGUMENT, "{}: all weights are 0", source);
  return weights;
}

std::vector<double> LabelData::class_weights(const std::vector<data::LabelledSample>& samples) const {
  const std::string wanted = opener_.settings.text("class_weights");
  if (wanted.empty() || !opener_.trains() || !reading_.labels) return {};
  if (space_.problem == Problem::kRegression)
    fail(WEFT_INVALID_ARGUMENT, "{} is for classes, but the labels of {} are numbers; leave it out",
         opener_.called("class_weights"), rows_.name());
  if (wanted == "balanced")
    return data::balanced_weights(samples, space_.names.size(), space_.problem == Problem::kMultiLabel);
  return weights_of_file(wanted);
}

void LabelData::encode(const data::LabelledRow& row, const data::TextEncoding& encoding,
                       const std::optional<TokenSpans>& spans, data::LabelledSample& sample) const {
  if (row.of_spans) {
    sample.sequence = encoding.encode_with_spans(row.text, *spans);
    if (reading_.labels) sample.classes = data::span_labels(row, rows_, sample.sequence, space_.names);
    return;
  }
  if (!reading_.columns.of_words) {
    const bool pairs = !reading_.columns.second_text.empty();
    sample.sequence = pairs ? encoding.encode_pair(row.text, row.second_text) : encoding.encode(row.text);
    return;
  }
  sample.sequence = encoding.encode_words(row.words, sample.words);
  if (reading_.labels)
    sample.classes =
        data::token_labels(sample, sample.classes, space_.names, labels_all_subwords_, encoding.ids_behind());
}

std::shared_ptr<data::LabelledTexts> LabelData::open() const {
  const Model& model = opener_.model;
  const data::TextEncoding encoding = this->encoding();
  data::LabelledTextOptions options;
  options.form = form();
  options.classes = static_cast<int64_t>(space_.names.size());
  options.padding = encoding.padding();
  // Encoders classify a text by its first position, which must not be padding.
  options.pads_left = reading_.columns.of_words && encoding.pads_left();
  options.pad_to_multiple = opener_.settings.integer("pad_to_multiple_of", 1);
  const nn::TokenModel& tokens = *nn::find_token_model(model.module());
  options.positions = tokens.reads_positions();
  for (const Vocabulary& each : tokens.vocabularies())
    options.token_types = options.token_types || each.field == nn::kTokenTypes;
  std::vector<data::LabelledSample> samples(chosen_.size());
  for (size_t i = 0; i < chosen_.size(); ++i) {
    const data::LabelledRow& row = rows_.rows[chosen_[i]];
    if (options.form == LabelForm::kNumber)
      samples[i].number = space_.number_of(row, rows_);
    else if (options.form != LabelForm::kNone && !row.of_spans)
      samples[i].classes = space_.classes_of(row, rows_);
  }
  std::optional<TokenSpans> spans;
  if (std::any_of(rows_.rows.begin(), rows_.rows.end(), [](const auto& row) { return row.of_spans; }))
    spans.emplace(encoding.tokenizer());
  data::on_threads(chosen_.size(), 0, [&](size_t i) {
    const data::LabelledRow& row = rows_.rows[chosen_[i]];
    try {
      encode(row, encoding, spans, samples[i]);
    } catch (const Error& error) {
      throw Error(error.status(), fmt::format("{}: {}", rows_.text_of(row.place), error.what()));
    }
  });
  options.class_weights = class_weights(samples);
  auto texts = std::make_shared<data::LabelledTexts>(std::move(samples), std::move(options), rows_.name());
  if (texts->cut() > 0)
    reading_.note(fmt::format("{}: {} of {} texts are truncated; a larger {} keeps more of them",
                              texts->name(), texts->cut(), texts->size(), opener_.called("sequence_length")));
  return texts;
}

}  // namespace weft
