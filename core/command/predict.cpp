// `weft predict`.
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cstdio>

#include "base/replaced_file.hpp"
#include "base/text.hpp"
#include "booster/host_options.hpp"
#include "comm/agreement.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "command/device_choice.hpp"
#include "command/job_files.hpp"
#include "device/tensors.hpp"
#include "evaluation/gathered_outputs.hpp"
#include "labels/span_tags.hpp"
#include "loader/fingerprint.hpp"
#include "opening/label_data.hpp"
#include "opening/model_state.hpp"
#include "weft/nn/model.hpp"

namespace weft::command {

namespace {

using data::LabelSpace;
using data::Problem;

// The texts, and what the model predicts of them.
struct Opened {
  std::shared_ptr<data::LabelledTexts> texts;
  std::shared_ptr<const LabelData> data;
};

Opened open_texts(const DataOpener& opener, const Model& model, const World& world) {
  Opened opened;
  std::string content;
  on_every_rank(world.communicator(), [&] {
    if (!learns_labels_of_text(model))
      fail(WEFT_INVALID_ARGUMENT,
           "{} predicts no labels of texts; give a model that was trained on them, such as one of a class "
           "...ForSequenceClassification ({})",
           model.architecture(), opener.called("architecture"));
    opened.data = std::make_shared<LabelData>(opener, /*labels=*/false);
    opened.texts = opened.data->open();
    if (world.size() > 1) content = data::compared_content(*opened.texts);
  });
  if (world.size() > 1)
    require_agreement(world.communicator(), {{"data", content}}, {{"data", opened.texts->name()}});
  return opened;
}

// Returns the line of a row. logits: (K), fp64.
json line_of(const at::Tensor& logits, const LabelSpace& space) {
  if (space.problem == Problem::kRegression) {
    const std::vector<double> values = device::values_of<double>(logits);
    return {{"value", values.size() == 1 ? json(values.front()) : json(values)}};
  }
  const bool several = space.problem == Problem::kMultiLabel;
  const std::vector<double> probabilities =
      device::values_of<double>(several ? at::sigmoid(logits) : at::softmax(logits, -1));
  if (!several) {
    const int64_t best = device::value_of<int64_t>(logits.argmax());
    return {{"label", space.names.at(static_cast<size_t>(best))},
            {"probability", probabilities[static_cast<size_t>(best)]}};
  }
  json labels = json::array(), of_labels = json::array();
  for (size_t k = 0; k < probabilities.size(); ++k) {
    if (!(probabilities[k] > 0.5)) continue;
    labels.push_back(space.names.at(k));
    of_labels.push_back(probabilities[k]);
  }
  return {{"label", std::move(labels)}, {"probability", std::move(of_labels)}};
}

// Returns the line of the words of a sample, or of the parts of its text. logits: (T, K), fp64, of which the
// sample begins at `first`.
json line_of_words(const at::Tensor& logits, const data::LabelledSample& sample, const data::LabelledRow& row,
                   int64_t first, const LabelSpace& space) {
  if (!row.of_spans) {
    json tags = json::array(), probabilities = json::array();
    for (const int32_t start : sample.words) {
      const json word = start < 0 ? json() : line_of(logits[first + start], space);
      tags.push_back(start < 0 ? json() : word.at("label"));
      probabilities.push_back(start < 0 ? json() : word.at("probability"));
    }
    return {{"tags", std::move(tags)}, {"probability", std::move(probabilities)}};
  }
  std::vector<std::string> tags;
  std::vector<double> probabilities;
  for (size_t i = 0; i < sample.sequence.ids.size(); ++i) {
    const json token = line_of(logits[first + static_cast<int64_t>(i)], space);
    tags.push_back(token.at("label"));
    probabilities.push_back(token.at("probability"));
  }
  json spans = json::array();
  for (const data::PredictedSpan& span : data::spans_of(row.text, sample.sequence, tags, probabilities))
    spans.push_back(
        {{"start", span.start}, {"end", span.end}, {"label", span.label}, {"probability", span.probability}});
  return {{"spans", std::move(spans)}};
}

// Gives the logits of tokens, (B, T, K), as many positions as the longest sample has, on the side where
// samples are padded: ranks have batches of several lengths.
State with_equal_lengths(State outputs, int64_t longest, bool pads_left) {
  if (outputs.empty()) return outputs;
  const int64_t missing = longest - outputs.at("logits").size(1);
  if (missing > 0)
    outputs.set("logits", at::constant_pad_nd(outputs.at("logits"),
                                              pads_left ? std::vector<int64_t>{0, 0, missing, 0}
                                                        : std::vector<int64_t>{0, 0, 0, missing}));
  return outputs;
}

// Writes lines to a file that appears whole, or to stdout.
void write(const std::string& text, const std::string& path, const std::string& named, const World& world) {
  world.block_all();
  world.priority_execution([&] {
    if (!world.is_master()) return;
    if (!path.empty()) return replace_file(path, text, named);
    std::fputs(text.c_str(), stdout);
    if (std::fflush(stdout) != 0) fail(WEFT_UNAVAILABLE, "the predictions could not be written to stdout");
  });
}

}  // namespace

int predict(const Settings& arguments) {
  const World world = join_job(arguments);
  const BoosterOptions options = on_chosen_device(
      booster_options_for_outputs(arguments, world.size() == 1 ? "none" : ""), arguments, world);
  const std::string output = arguments.text("output"), named = arguments.called("output") + " " + output;
  on_every_rank(world.communicator(), [&] {
    JobFiles files(arguments);
    files.reads_options(options);
    files.writes_given(arguments);
    if (!output.empty() && world.is_master()) ReplacedFile::require_writable(output, named);
  });
  const Model model = open_model(arguments, resolve_precision(options), world, checkpoint::Missing::kNothing);
  const DataOpener opener = data_of(arguments, model, world);
  const Opened opened = open_texts(opener, model, world);
  Booster booster(options, world);
  Job job = booster.boost(model);
  data::LoaderOptions loading;
  loading.rank = booster.data_rank();
  loading.ranks = booster.data_size();
  const int64_t wanted = arguments.integer("batch_size");
  loading.batch_size =
      arguments.given("batch_size") ? wanted : (wanted + loading.ranks - 1) / loading.ranks * loading.ranks;
  data::Loader loader(opened.texts, loading);
  const data::LabelledTexts& texts = *opened.texts;
  const bool of_words = model.module().labelled() == nn::Labelled::kTokens;
  int64_t longest = 0, done = 0;
  for (int64_t i = 0; i < texts.size(); ++i) longest = std::max(longest, texts.sample_length(i));
  longest = texts.padded(longest);
  std::string lines;
  for (const Batch& batch : loader) {
    State own = job.forward(batch);
    if (of_words) own = with_equal_lengths(std::move(own), longest, texts.pads_left());
    const State outputs = gather_outputs(std::move(own), batch, job.model.shared().bindings());
    if (!world.is_master()) continue;
    const at::Tensor logits = outputs.at("logits").to(at::kDouble);
    for (int64_t row = 0; row < logits.size(0); ++row, ++done) {
      const int64_t first = texts.pads_left() ? longest - texts.sample_length(done) : 0;
      const json line = of_words ? line_of_words(logits[row], texts.sample(done), opened.data->row(done),
                                                 first, opened.data->space())
                                 : line_of(logits[row], opened.data->space());
      lines += line.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
    }
  }
  write(lines, output, named, world);
  return 0;
}

}  // namespace weft::command
