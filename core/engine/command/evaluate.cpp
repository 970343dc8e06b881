// `weft evaluate` and `weft forward`.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.hpp"
#include "booster/host_options.hpp"
#include "booster/model_files.hpp"
#include "booster/model_state.hpp"
#include "checkpoint/format.hpp"
#include "comm/agreement.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "command/document_losses.hpp"
#include "command/word_errors.hpp"
#include "data/fingerprint.hpp"
#include "device/tensors.hpp"
#include "step_log/json_lines.hpp"
#include "training/training.hpp"
#include "weft/nn/model.hpp"
#include "weft/torch/dtypes.hpp"

namespace weft::command {

namespace {

struct Opened {
  Booster booster;
  Job job;
  std::shared_ptr<data::Dataset> dataset;
};

// Returns the options of a loader in the order of the file. Rounds the default batch size up to a multiple of
// the number of data-parallel ranks.
data::LoaderOptions loader_options(const json& arguments, const char* key, const Opened& opened,
                                   int64_t otherwise) {
  const Booster& booster = opened.booster;
  data::LoaderOptions options;
  options.num_workers = loader_workers(arguments, key, opened.job.model, booster.world());
  options.rank = booster.data_rank();
  options.ranks = booster.data_size();
  options.batch_size =
      integer(arguments, "batch_size", (otherwise + options.ranks - 1) / options.ranks * options.ranks);
  return options;
}

data::Loader sequential_loader(const json& arguments, const char* key, const Opened& opened,
                               int64_t otherwise) {
  return {opened.dataset, loader_options(arguments, key, opened, otherwise)};
}

std::string strategy_without_flag(const World& world) {
  return world.size() == 1 ? "none" : "";
}

// Opens the model and, with `open`, the data for it.
template <class Open>
Opened open_job(const json& arguments, const BoosterOptions& options, const World& world, const Open& open) {
  Model model = open_model(arguments, resolve_precision(options), world, checkpoint::Missing::kNothing);
  std::shared_ptr<data::Dataset> dataset = open(model);
  if (world.size() > 1) {
    std::string content;
    on_every_rank(world.communicator(), [&] { content = data::compared_content(*dataset); });
    require_agreement(world.communicator(), {{"data", content}, {"objective", dataset->objective()}},
                      {{"data", dataset->name()}});
  }
  Booster booster(options, world);
  Job job = booster.boost(std::move(model));
  return {std::move(booster), std::move(job), std::move(dataset)};
}

// Gathers the rows of all ranks in order on rank 0; a rank that is `empty` has none. Collective.
at::Tensor gather_rows(const at::Tensor& mine, bool empty, const World& world) {
  if (world.size() == 1) return mine;
  const Communicator& all = world.communicator();
  const at::Tensor counts = at::empty({world.size()}, at::kLong);
  all.all_gather(counts, at::full({1}, empty ? 0 : mine.size(0), at::kLong), true).wait();
  const std::vector<int64_t> rows = device::values_of<int64_t>(counts);
  const int64_t most = *std::max_element(rows.begin(), rows.end());
  std::vector<int64_t> shape = mine.sizes().vec();
  shape[0] = most;
  const at::Tensor padded = at::zeros(shape, mine.options());
  if (!empty) padded.narrow(0, 0, mine.size(0)).copy_(mine);
  shape[0] = most * world.size();
  const at::Tensor gathered = at::empty(shape, mine.options());
  all.all_gather(gathered, padded, true).wait();
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < world.size(); ++rank)
    parts.push_back(gathered.narrow(0, rank * most, rows[static_cast<size_t>(rank)]));
  return at::cat(parts);
}

// Adds placeholder outputs with the right names, dtypes and shapes if the outputs are on another pipeline
// stage, so that every rank can take part in the gather. Returns whether the outputs are this rank's.
// Collective.
bool complete_outputs(State& outputs, Bindings& bindings) {
  const bool own = !outputs.empty();
  if (!bindings.mesh().splits(Mesh::stages())) return own;
  const auto describe = [&] {
    json described = json::array();
    for (const auto& [name, tensor] : outputs)
      described.push_back({name, dtype_code(tensor.scalar_type()), tensor.sizes().vec()});
    return described.dump();
  };
  for (const std::string& text :
       gather_from_every_rank(bindings.comm(Mesh::stages())->communicator, describe))
    for (const json& output : json::parse(text))
      if (!own)
        outputs.set(output[0].get<std::string>(),
                    at::zeros(output[2].get<std::vector<int64_t>>(), scalar_type(output[1].get<uint32_t>())));
  return own;
}

double word_error_rate(const json& arguments, Opened& opened) {
  const std::optional<Tokenizer>& tokenizer = opened.job.model.shared().tokenizer;
  if (!tokenizer)
    fail(WEFT_INVALID_ARGUMENT,
         "--word-error-rate compares texts, and there is no tokenizer in the folder of the model: give "
         "--tokenizer");
  GenerationOptions options = GenerationOptions::load(text(arguments, "model"));
  options.greedy = true;
  const WordErrors errors = count_word_errors(opened.job, *opened.dataset, *tokenizer, options,
                                              integer(arguments, "batch_size", 8));
  if (errors.words == 0)
    fail(WEFT_INVALID_ARGUMENT, "{}: the transcripts have no words", opened.dataset->name());
  return errors.rate();
}

// Returns what was measured, as --json and --metrics have it.
json result_of(const Evaluation& total, const nn::Model& model, int64_t samples) {
  json result = {{"loss", total.loss()}, {"labels", total.labels()}, {"samples", samples}};
  for (const Evaluation::Term& term : total.terms)
    if (term.name == model.perplexity_term() && term.count > 0)
      result["perplexity"] = std::exp(term.sum / term.count);
  for (const Metric& metric : total.metrics)
    if (metric.count > 0) result[metric.name] = metric.sum / metric.count;
  return result;
}

// Returns the same for people.
std::string line_of(const json& result) {
  std::string line = fmt::format("loss {:.4f}", result.at("loss").get<double>());
  if (result.contains("perplexity"))
    line += fmt::format("  perplexity {:.3f}", result["perplexity"].get<double>());
  for (const auto& [name, value] : result.items())
    if (name != "loss" && name != "perplexity" && name != "labels" && name != "samples")
      line += fmt::format("  {} {:.4f}", name, value.get<double>());
  return line + fmt::format("  ({:.0f} labels, {} samples)", result.at("labels").get<double>(),
                            result.at("samples").get<int64_t>());
}

// Prints the loss of each document and of all together.
void evaluate_documents(const json& arguments, const BoosterOptions& options, const World& world) {
  std::shared_ptr<data::TextDocuments> documents;
  Opened opened = open_job(arguments, options, world, [&](const Model& model) {
    return documents = open_documents(arguments, model, options.seed, world, data::Part::kHeldOut);
  });
  step_log::JsonLines metrics(text(arguments, "metrics"), "--metrics", world);
  const std::vector<TokenLoss> losses =
      document_losses(opened.job, documents, loader_options(arguments, "data", opened, 8));
  world.block_all();
  std::vector<json> lines;
  world.priority_execution([&] {
    if (world.is_master()) lines = document_lines(*documents, losses);
  });
  if (world.is_master()) {
    if (!flag(arguments, "json")) std::printf("%s", document_table(lines).c_str());
    for (const json& line : lines)
      if (flag(arguments, "json")) std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }
  metrics.begin();
  for (const json& line : lines) metrics.write(line);
}

}  // namespace

int evaluate(const json& arguments) {
  const World world = join_job("evaluate", arguments);
  if (given(arguments, "metrics") && text(arguments, "metrics").empty())
    fail(WEFT_INVALID_ARGUMENT, "--metrics is empty: give a path, or leave the flag out");
  const BoosterOptions options = booster_options(arguments, strategy_without_flag(world));
  if (flag(arguments, "by_document")) {
    evaluate_documents(arguments, options, world);
    return 0;
  }
  Opened opened = open_job(arguments, options, world, [&](const Model& model) {
    return open_labelled_data(arguments, model, options.seed, world, data::Part::kHeldOut);
  });
  step_log::JsonLines metrics(text(arguments, "metrics"), "--metrics", world);
  data::Loader loader = sequential_loader(arguments, "data", opened, 8);
  Evaluation total;
  for (const Batch& batch : loader) total += opened.job.evaluate(batch);
  if (!(total.labels() > 0))
    fail(WEFT_INVALID_ARGUMENT, "{}: no label counts (all are -100): the mean over none is undefined",
         opened.dataset->name());
  json result = result_of(total, opened.job.model.module(), opened.dataset->size());
  if (flag(arguments, "word_error_rate")) result["word_error_rate"] = word_error_rate(arguments, opened);
  world.block_all();
  if (world.is_master()) {
    // First to stdout: a full disk must not lose what was computed.
    std::printf("%s\n", flag(arguments, "json") ? result.dump().c_str() : line_of(result).c_str());
    std::fflush(stdout);
  }
  metrics.begin();
  metrics.write(result);
  return 0;
}

int forward(const json& arguments) {
  const World world = join_job("forward", arguments);
  const BoosterOptions options = booster_options_for_outputs(arguments, strategy_without_flag(world));
  Opened opened = open_job(arguments, options, world,
                           [&](const Model& model) { return open_data(arguments, "inputs", model, world); });
  // The files of a folder can be more than fit in memory.
  const bool is_folder = is_folder_of_files(opened.job.model, text(arguments, "inputs"));
  data::Loader loader =
      sequential_loader(arguments, "inputs", opened, is_folder ? 8 : opened.dataset->size());
  std::vector<std::pair<std::string, std::vector<at::Tensor>>> parts;  // in the order of the outputs
  Evaluation total;
  Bindings& bindings = opened.job.model.shared().bindings();
  const bool counts = bindings.mesh().speaks_for(Fact::kOutputs);
  for (const Batch& batch : loader) {
    auto [outputs, evaluation] = opened.job.forward_and_evaluate(batch);
    const bool own = complete_outputs(outputs, bindings);
    if (parts.empty())
      for (const auto& [name, tensor] : outputs) parts.emplace_back(name, std::vector<at::Tensor>());
    for (auto& [name, tensors] : parts)
      tensors.push_back(
          gather_rows(device::on_host(outputs.at(name)).contiguous(), batch.empty || !counts || !own, world));
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
  checkpoint::Writer writer(text(arguments, "output"), {}, entries);
  for (size_t i = 0; i < tensors.size(); ++i) writer.write(i, Box::whole(entries[i].shape), tensors[i]);
  writer.commit();
  return 0;
}

}  // namespace weft::command
