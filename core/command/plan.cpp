// `weft plan`.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "apply/describe_model.hpp"
#include "base/bytes.hpp"
#include "base/text.hpp"
#include "booster/chosen_strategy.hpp"
#include "booster/estimate.hpp"
#include "booster/host_options.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "command/job_files.hpp"
#include "command/plan_stages.hpp"
#include "opening/model_plan.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::command {

namespace {

std::string size_text(double bytes) {
  if (bytes >= 1073741824.) return fmt::format("{:.2f} GiB", bytes / 1073741824.);
  if (bytes >= 1048576.) return fmt::format("{:.1f} MiB", bytes / 1048576.);
  return fmt::format("{:.0f} KiB", bytes / 1024.);
}

double total_of(const weft_job_estimate& estimate, int64_t activations) {
  return static_cast<double>(estimate.parameters + estimate.gradients + estimate.masters + estimate.states +
                             estimate.transient + activations);
}
double sent_of(const weft_job_estimate& e) {
  return static_cast<double>(e.sent_all_reduce + e.sent_reduce_scatter + e.sent_all_gather +
                             e.sent_broadcast);
}

// What a rank of one strategy needs; of several pipeline stages, the stage that needs most.
struct Row {
  std::string strategy;
  std::optional<weft_job_estimate> estimate;
  std::optional<int64_t> activations;
  std::optional<plan::SentBytes> layers = {};  // sent over the tensor and sequence axes
  uint32_t stage = 0, stages = 1;
  double total() const { return estimate ? total_of(*estimate, activations.value_or(0)) : 0; }
};

// `activations` are those of the first stage.
Row make_row(const Model& model, const BoosterOptions& booster, const MicroBatchShape& micro_batch,
             int64_t world_size, std::optional<int64_t> activations) {
  const uint32_t stages = num_stages(booster);
  Row most;
  for (uint32_t stage = 0; stage < stages; ++stage) {
    if (stage > 0) activations = activation_bytes(model, booster, micro_batch, stage);
    Row row = {
        booster.strategy, estimate_job(model, booster, world_size, stage), activations, {}, stage, stages};
    if (stage == 0 || row.total() > most.total()) most = std::move(row);
  }
  if (stages == 1) most.layers = estimate_layers(model, booster, micro_batch);
  return most;
}

int64_t total_of(const plan::SentBytes& sent) {
  return std::accumulate(sent.begin(), sent.end(), int64_t{0});
}

json to_json(const Row& of) {
  json row = {{"strategy", of.strategy}};
  if (of.layers)
    for (size_t i = 0; i < of.layers->size(); ++i)
      row["sent_bytes_in_layers"][plan::kCollectives[i]] = (*of.layers)[i];
  const std::optional<weft_job_estimate>& estimate = of.estimate;
  if (!estimate) return row;
  if (of.stages > 1) row["stage"] = of.stage;
  row["bytes"] = {{"parameters", estimate->parameters},
                  {"gradients", estimate->gradients},
                  {"masters", estimate->masters},
                  {"states", estimate->states},
                  {"transient", estimate->transient}};
  if (of.activations) row["bytes"]["activations"] = *of.activations;
  row["bytes"]["total"] = of.total();
  row["bytes"]["host"] = estimate->host;
  row["sent_bytes"] = {{"all_reduce", estimate->sent_all_reduce},
                       {"reduce_scatter", estimate->sent_reduce_scatter},
                       {"all_gather", estimate->sent_all_gather},
                       {"broadcast", estimate->sent_broadcast}};
  return row;
}

void print_table(const std::vector<Row>& rows, double memory) {
  std::printf("%-18s %12s %12s %12s %12s %12s %12s %12s %14s\n", "strategy", "parameters", "gradients",
              "masters", "states", "transient", "activations", "total", "sent per step");
  for (const Row& row : rows) {
    const std::optional<weft_job_estimate>& estimate = row.estimate;
    if (!estimate) {
      std::printf("%-18s has no estimate\n", row.strategy.c_str());
      continue;
    }
    const double total = row.total();
    std::printf("%-18s", row.strategy.c_str());
    for (const int64_t bytes : {estimate->parameters, estimate->gradients, estimate->masters,
                                estimate->states, estimate->transient})
      std::printf(" %12s", size_text(static_cast<double>(bytes)).c_str());
    const auto host = static_cast<double>(estimate->host);  // this part is in host memory
    std::printf(" %12s %12s %14s%s%s\n",
                row.activations ? size_text(static_cast<double>(*row.activations)).c_str() : "unknown",
                size_text(total).c_str(), size_text(sent_of(*estimate)).c_str(),
                memory > 0 ? (total - host <= memory ? "  fits" : "  does not fit") : "",
                host > 0 ? ("  with " + size_text(host) + " in host memory").c_str() : "");
  }
}

// Prints which of the pipeline stages the row is, and what its columns count.
void print_stages(const Row& row) {
  std::printf(
      "stage %u needs the most memory of the %u pipeline stages; activations are those of the micro-batches "
      "that it keeps at once; what it sends is counted on the data axes alone\n",
      row.stage, row.stages);
}

// Prints what the layers of a strategy with tensor or sequence axes send, which the table leaves out.
void print_layers(const Row& row) {
  if (!row.layers) {
    std::printf(
        "what %s sends over the tensor and sequence axes is unknown: the model has no example of a "
        "sequence\n",
        row.strategy.c_str());
    return;
  }
  if (total_of(*row.layers) == 0) return;
  std::vector<std::string> parts;
  for (size_t i = 0; i < row.layers->size(); ++i) {
    const auto bytes = static_cast<double>((*row.layers)[i]);
    std::string name = plan::kCollectives[i];
    std::replace(name.begin(), name.end(), '_', '-');
    if (bytes > 0) parts.push_back(fmt::format("{} {}", name, size_text(bytes)));
  }
  std::printf(
      "%s",
      fmt::format("{} also sends {} per step in its layers, over the tensor and sequence axes: {}\n",
                  row.strategy, size_text(static_cast<double>(total_of(*row.layers))), fmt::join(parts, ", "))
          .c_str());
}

// Prints the plan of the model under the options of --strategy: custom_policy, the layer flags, and tp_size
// unless --tensor-size is given; with pp_size also the stages and the schedule of `samples` samples.
void explain(const Model& model, const Settings& arguments, const std::string& recompute,
             const HostOptions& host, int64_t samples) {
  plan::ParallelSizes sizes = host.plan_flags;
  if (arguments.given("tensor_size")) sizes.tensor = static_cast<uint32_t>(arguments.integer("tensor_size"));
  std::string identity;
  const std::optional<plan::Policy> policy = find_policy(model.module(), host.custom_policy, &identity);
  std::printf("%s", plan::explain_model(model.module(), policy, sizes).c_str());
  if (host.pipeline.size == 1) return;
  std::printf("%s", explain_stages(model, recompute, host.pipeline, samples).c_str());
  if (arguments.given("world_size"))
    std::printf("%s", list_ranks(host.pipeline, static_cast<uint32_t>(arguments.integer("world_size")),
                                 host.plan_flags.tensor)
                          .c_str());
}

// Returns --sequence-length, or the largest number of tokens that the model takes.
int64_t sequence_length(const Settings& arguments, const Model& model, const nn::TokenModel* tokens) {
  if (tokens == nullptr && arguments.given("sequence_length"))
    fail(WEFT_INVALID_ARGUMENT,
         "--sequence-length is for text, but {} does not read text alone; leave it out",
         model.architecture());
  const int64_t longest = tokens ? tokens->max_sequence_length() : 0;
  const int64_t length = arguments.integer("sequence_length", longest > 0 ? longest : 1024);
  if (longest > 0 && length > longest)
    fail(WEFT_INVALID_ARGUMENT, "--sequence-length is {}, but {} takes at most {} tokens", length,
         model.architecture(), longest);
  return length;
}

void print_estimates(const std::vector<Row>& rows, const std::string& what, double memory, bool of_one) {
  std::printf("%s", what.c_str());
  print_table(rows, memory);
  if (!of_one) return;
  const Row& row = rows.front();
  if (row.stages == 1)
    print_layers(row);
  else if (row.estimate)
    print_stages(row);
}

}  // namespace

int plan(const Settings& arguments) {
  BoosterOptions booster = booster_options(arguments, "none");
  const std::string precision = resolve_precision(booster);
  const int64_t world_size = arguments.integer("world_size");
  MicroBatchShape micro_batch;
  micro_batch.batch_size = arguments.integer("batch_size");
  const auto memory =
      static_cast<double>(arguments.given("memory") ? parse_bytes(arguments.text("memory"), "--memory") : 0);
  JobFiles files(arguments);
  files.reads_options(booster);
  files.writes_given(arguments);
  Model model = Model::open(arguments.text("model"), arguments.text("architecture"), precision);
  if (arguments.given("adapter")) model.adapt(arguments.text("adapter"));
  const bool explains = arguments.flag("explain"), draws = arguments.given("picture"),
             writes = arguments.given("schedule_file");
  const bool as_json = arguments.flag("json");
  const bool estimates = arguments.given("world_size") || arguments.given("memory") || as_json;
  HostOptions host = choose_strategy(booster).host;
  if (estimates) check_ranks(host, world_size);  // before anything is printed or written
  if (explains || draws || writes) {
    read_schedule(host.pipeline, booster.accumulate);
    if (draws) draw_stages(model, host.pipeline, micro_batch.batch_size, arguments.text("picture"));
    if (writes) write_schedule(model, host.pipeline, micro_batch.batch_size, arguments.text("schedule_file"));
    if (explains) explain(model, arguments, booster.recompute, host, micro_batch.batch_size);
  }
  if ((explains || draws || writes) && !estimates) return 0;
  if (explains) std::printf("\n");
  const nn::TokenModel* tokens = nn::find_token_model(model.module());
  micro_batch.sequence_length = sequence_length(arguments, model, tokens);
  const std::optional<int64_t> activations = activation_bytes(model, booster, micro_batch);
  std::vector<Row> rows;
  for (const std::string& name :
       arguments.given("strategy") ? std::vector{booster.strategy} : strategy_names()) {
    booster.strategy = name;
    rows.push_back(make_row(model, booster, micro_batch, world_size, activations));
  }
  if (as_json) {
    json all = json::array();
    for (const Row& row : rows) all.push_back(to_json(row));
    std::printf("%s\n", all.dump().c_str());
    return 0;
  }
  print_estimates(
      rows,
      fmt::format("{}, {} elements, {}, Adam; one of {} ranks, {} samples{} a rank, no dropout\n",
                  model.architecture(), model.num_elements(), precision, world_size, micro_batch.batch_size,
                  tokens ? fmt::format(" of {} tokens", micro_batch.sequence_length) : ""),
      memory, arguments.given("strategy"));
  return 0;
}

}  // namespace weft::command
