// `weft evaluate` and `weft forward`.
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <cmath>
#include <cstdio>

#include "base/replaced_file.hpp"
#include "base/text.hpp"
#include "booster/host_options.hpp"
#include "comm/agreement.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "command/device_choice.hpp"
#include "command/document_losses.hpp"
#include "command/evaluation_sets.hpp"
#include "command/job_files.hpp"
#include "evaluation/answer_measures.hpp"
#include "evaluation/gathered_outputs.hpp"
#include "evaluation/set_evaluation.hpp"
#include "files/format.hpp"
#include "loader/fingerprint.hpp"
#include "opening/model_files.hpp"
#include "opening/model_state.hpp"
#include "opening/text_bytes.hpp"
#include "training/training.hpp"
#include "weft/hooks.hpp"
#include "weft/nn/model.hpp"

namespace weft::command {

namespace {

struct Opened {
  Booster booster;
  Job job;
  std::shared_ptr<data::Dataset> dataset;
};

// Returns the options of a loader in the order of the file. Rounds the default batch size up to a multiple of
// the number of data-parallel ranks.
data::LoaderOptions loader_options(const Settings& arguments, const char* key, const Opened& opened,
                                   int64_t otherwise) {
  const Booster& booster = opened.booster;
  const int64_t workers = data_of(arguments, opened.job.model, booster.world()).loader_workers(key);
  data::LoaderOptions options = in_order(booster, otherwise, workers);
  options.batch_size = arguments.integer("batch_size", options.batch_size);
  return options;
}

data::Loader sequential_loader(const Settings& arguments, const char* key, const Opened& opened,
                               int64_t otherwise) {
  return {opened.dataset, loader_options(arguments, key, opened, otherwise)};
}

std::string strategy_without_flag(const World& world) {
  return world.size() == 1 ? "none" : "";
}

// Opens a model with all its weights.
Model open_trained(const Settings& arguments, const BoosterOptions& options, const World& world) {
  return open_model(arguments, resolve_precision(options), world, checkpoint::Missing::kNothing);
}

// Opens, with `open`, the data for a model.
template <class Open>
Opened open_job(Model model, const BoosterOptions& options, const World& world, const Open& open) {
  std::shared_ptr<data::Dataset> dataset = open(model);
  require_same_data(*dataset, world);
  Booster booster(options, world);
  Job job = booster.boost(std::move(model));
  return {std::move(booster), std::move(job), std::move(dataset)};
}

// Returns what was measured, as --json and --metrics have it.
json result_of(const SetResult& found, int64_t samples) {
  json result = {{"labels", found.total.labels()}, {"samples", samples}};
  for (const auto& [key, value] : found.values) result[key] = value ? json(*value) : json();
  result["loss"] = found.total.loss();
  return result;
}

// Returns the same for people.
std::string line_of(const json& result) {
  EvaluationValues values;
  for (const auto& [name, value] : result.items())
    if (name != "labels" && name != "samples" && name != "questions")
      values[name] = value.is_null() ? std::nullopt : std::optional(value.get<double>());
  std::string line = fmt::format("{}  ({:.0f} labels, {} samples", evaluation_text(values),
                                 result.at("labels").get<double>(), result.at("samples").get<int64_t>());
  if (result.contains("questions")) line += fmt::format(", {} questions", result["questions"].get<int64_t>());
  return line + ")";
}

// A file that is written at the end, in place of what it held. Does nothing if its flag is not given.
class ResultFile {
 public:
  // `key` is the argument of its flag. Throws on every rank if the file cannot be written. Collective.
  ResultFile(const Settings& arguments, const char* key, const World& world)
      : path_(arguments.text(key)), named_(arguments.called(key) + " " + path_), world_(world) {
    if (path_.empty()) return;
    world_.priority_execution([&] {
      if (world_.is_master()) ReplacedFile::require_writable(path_, named_);
    });
  }
  // Writes what `text` returns on the master. Throws on every rank if that fails. Collective.
  template <class Text>
  void write(const Text& text) const {
    if (path_.empty()) return;
    world_.priority_execution([&] {
      if (world_.is_master()) replace_file(path_, text(), named_);
    });
  }

 private:
  std::string path_, named_;
  World world_;
};

std::string dump_lines(const std::vector<json>& lines) {
  std::string text;
  for (const json& line : lines) text += line.dump() + '\n';
  return text;
}

// Throws on every rank if a loss is not a number or infinite. Collective.
void require_finite(const std::vector<json>& lines, const std::string& data, const World& world) {
  on_every_rank(world.communicator(), [&] {
    for (const json& line : lines) {
      const double loss = line.value("loss", 0.0);
      if (std::isfinite(loss)) continue;
      fail(
          WEFT_DATA_LOSS,
          "{}: the loss is {}: the model's weights or the samples are not finite, or its precision overflows",
          line.contains("file") ? fmt::format("{}: {}", data, line["file"].get<std::string>()) : data, loss);
    }
  });
}

// Prints what was measured, and writes it to --metrics. Throws if the loss is not finite. Collective.
void report(const json& result, const Settings& arguments, const Opened& opened, const ResultFile& metrics) {
  const World& world = opened.booster.world();
  world.block_all();
  if (world.is_master()) {
    // First to stdout: a full disk must not lose what was computed.
    std::printf("%s\n", arguments.flag("json") ? result.dump().c_str() : line_of(result).c_str());
    std::fflush(stdout);
  }
  metrics.write([&] { return dump_lines({result}); });
  require_finite({result}, opened.dataset->name(), world);
}

// Prints the loss of each document and of all together.
void evaluate_documents(const Settings& arguments, const BoosterOptions& options, const World& world) {
  std::shared_ptr<data::TextDocuments> documents;
  Opened opened = open_job(open_trained(arguments, options, world), options, world, [&](const Model& model) {
    return documents = data_of(arguments, model, world, options.seed, data::Part::kHeldOut).documents();
  });
  const ResultFile metrics(arguments, "metrics", world);
  const std::vector<TokenLoss> losses =
      document_losses(opened.job, documents, loader_options(arguments, "data", opened, 8));
  world.block_all();
  std::vector<json> lines;
  world.priority_execution([&] {
    if (world.is_master()) lines = document_lines(*documents, losses);
  });
  if (world.is_master()) {
    if (!arguments.flag("json")) std::printf("%s", document_table(lines).c_str());
    for (const json& line : lines)
      if (arguments.flag("json")) std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }
  metrics.write([&] { return dump_lines(lines); });
  require_finite(lines, documents->name(), world);
}

// Returns the text of --predictions: the answer to each question, by its id, as SQuAD's script reads it.
std::string predictions_text(const std::vector<data::Question>& questions,
                             const std::vector<std::string>& answers) {
  std::string text;
  for (size_t i = 0; i < questions.size(); ++i)
    text += (i == 0 ? "{\n " : ",\n ") + json(questions[i].id).dump() + ": " + json(answers[i]).dump();
  return text + "\n}\n";
}

// Measures data, of questions also the answers, and prints what was found.
void evaluate_data(const Settings& arguments, const BoosterOptions& options, Model model,
                   const World& world) {
  Opened opened = open_job(std::move(model), options, world, [&](const Model& opened_model) {
    return with_text_bytes(
        opened_model, data_of(arguments, opened_model, world, options.seed, data::Part::kHeldOut).labelled());
  });
  const ResultFile metrics(arguments, "metrics", world);
  const ResultFile predictions(arguments, "predictions", world);
  EvaluationSet set = {"", sequential_loader(arguments, "data", opened, 8)};
  set.measures = measures_of(arguments, opened.job.model, set.data);
  for (const std::shared_ptr<SetMeasures>& measures : set.measures) measures->check(opened.job);
  const SetResult found = *evaluate_set(opened.job, set, 0, [] { return false; });
  if (!(found.total.labels() > 0))
    fail(WEFT_INVALID_ARGUMENT, "{}: no label counts (all are -100): the mean over none is undefined",
         opened.dataset->name());
  const auto* const answers = dynamic_cast<const AnswerMeasures*>(
      questions_of(set.data) != nullptr ? set.measures.front().get() : nullptr);
  json result = result_of(found, opened.dataset->size());
  if (answers != nullptr) result["questions"] = answers->questions().size();
  report(result, arguments, opened, metrics);
  predictions.write([&] { return predictions_text(answers->questions(), answers->answers()); });
}

// Throws on every rank if a file that is written is read, or is another one of them. Collective.
void check_outputs(const Settings& arguments, const BoosterOptions& options, const World& world) {
  on_every_rank(world.communicator(), [&] {
    JobFiles files(arguments);
    files.reads_options(options);
    files.writes_given(arguments);
  });
}

}  // namespace

int evaluate(const Settings& arguments) {
  const World world = join_job(arguments);
  const BoosterOptions options =
      on_chosen_device(booster_options(arguments, strategy_without_flag(world)), arguments, world);
  check_outputs(arguments, options, world);
  if (arguments.flag("by_document")) {
    if (!options.objective.empty())
      fail(WEFT_INVALID_ARGUMENT, "{} measures the model's own loss, but {} is {}; leave one of them out",
           arguments.called("by_document"), arguments.called("objective"), options.objective);
    evaluate_documents(arguments, options, world);
    return 0;
  }
  Model model = open_trained(arguments, options, world);
  const bool has_questions = data_of(arguments, model, world).has_questions();
  BoosterOptions used = options;
  if (has_questions) used = booster_options_for_outputs(arguments, strategy_without_flag(world));
  used.device = options.device;
  evaluate_data(arguments, used, std::move(model), world);
  return 0;
}

int forward(const Settings& arguments) {
  const World world = join_job(arguments);
  const BoosterOptions options = on_chosen_device(
      booster_options_for_outputs(arguments, strategy_without_flag(world)), arguments, world);
  check_outputs(arguments, options, world);
  Opened opened = open_job(open_trained(arguments, options, world), options, world, [&](const Model& model) {
    return data_of(arguments, model, world).as_it_is("inputs");
  });
  // The files of a folder can be more than fit in memory.
  const bool is_folder = is_folder_of_files(opened.job.model, arguments.text("inputs"));
  data::Loader loader =
      sequential_loader(arguments, "inputs", opened, is_folder ? 8 : opened.dataset->size());
  std::vector<std::pair<std::string, std::vector<at::Tensor>>> parts;  // in the order of the outputs
  Evaluation total;
  for (const Batch& batch : loader) {
    auto [outputs, evaluation] = opened.job.forward_and_evaluate(batch);
    const State gathered = gather_outputs(std::move(outputs), batch, opened.job.model.shared().bindings());
    if (parts.empty())
      for (const auto& [name, tensor] : gathered) parts.emplace_back(name, std::vector<at::Tensor>());
    for (auto& [name, tensors] : parts) tensors.push_back(gathered.at(name));
    total += evaluation;
  }
  world.block_all();
  if (!world.is_master()) return 0;
  std::vector<checkpoint::Entry> entries;
  std::vector<at::Tensor> tensors;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
    tensors.push_back(tensor);
  };
  for (const auto& [name, rows] : parts) add(name, at::cat(rows));
  for (const auto& [name, loss] : total.outputs())
    add(name, at::full({}, loss, parts.front().second.front().options()));
  checkpoint::Writer writer(arguments.text("output"), {}, entries);
  for (size_t i = 0; i < tensors.size(); ++i) writer.write(i, Box::whole(entries[i].shape), tensors[i]);
  writer.commit();
  return 0;
}

}  // namespace weft::command
