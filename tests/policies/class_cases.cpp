#include "policies/class_cases.hpp"

#include <ATen/ATen.h>

#include "plugins/support/sequence_modes.hpp"
#include "policies/trials.hpp"

namespace weft::test {

namespace {

constexpr const char* kStrategies[] = {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini",
                                       "hybrid_parallel"};

constexpr const char* kUnder = "under the strategies";
constexpr const char* kWith = "with";
constexpr const char* kIn = "in the sequence modes";

struct Way {
  std::string how, column;
  JobOptions options;
  int ranks;
  int data_ranks;         // that train on different samples
  int micro_batches = 1;  // of a rank's samples
};

std::string code(const std::string& name) {
  return "`" + name + "`";
}

// Appends tensor parallelism, and sequence parallelism in every mode.
void add_divided_layouts(std::vector<Way>& ways) {
  for (const char* strategy : kStrategies)
    for (const int ranks : {2, 4})
      ways.push_back({kWith,
                      "tensor parallelism",
                      {.strategy = strategy, .options = R"({"tp_size": 2})"},
                      ranks,
                      ranks / 2});
  ways.push_back({kWith, "tensor parallelism", laid_out(kWholes[1]), kWholes[1].ranks, 1});
  for (const Split& split : kSplits) ways.push_back({kIn, code(split.mode), laid_out(split), split.ranks, 1});
}

// Appends pipeline stages: alone, with the other axes, and with sequence parallelism in every mode.
void add_stages(std::vector<Way>& ways) {
  const char* const column = "pipeline stages";
  ways.push_back({kWith,
                  column,
                  {.strategy = "torch_ddp", .options = R"({"pp_size": 2, "num_microbatches": 1})"},
                  2,
                  1});
  ways.push_back({kWith,
                  column,
                  {.strategy = "torch_ddp", .options = R"({"pp_size": 2, "num_microbatches": 3})"},
                  2,
                  1,
                  3});
  ways.push_back({kWith,
                  column,
                  {.strategy = "low_level_zero", .options = R"({"pp_size": 2, "pp_style": "gpipe"})"},
                  4,
                  2,
                  2});
  ways.push_back(
      {kWith,
       column,
       {.strategy = "hybrid_parallel", .options = R"({"pp_size": 2, "tp_size": 2, "num_microbatches": 3})"},
       4,
       1,
       3});
  for (const Split& split : kSplits)
    if (split.ranks == 2)
      ways.push_back(
          {kWith, "pipeline stages of split sequences",
           in_mode(split.mode, split.axes + std::string(R"("pp_size": 2, "num_microbatches": 3, )")), 4, 1,
           3});
}

std::vector<Way> make_ways() {
  std::vector<Way> ways = {{kUnder, code("none"), {}, 1, 1}};
  for (const char* strategy : kStrategies)
    ways.push_back({kUnder, code(strategy), {.strategy = strategy}, 3, 3});
  std::vector<Way> divided;
  add_divided_layouts(divided);
  add_stages(divided);
  for (const char* recompute : {"off", "all"})
    for (Way& way : divided) {
      way.options.recompute = recompute;
      ways.push_back(way);
    }
  for (const char* strategy : kStrategies)
    ways.push_back({kWith, "recomputation", {.strategy = strategy, .recompute = "all"}, 3, 3});
  return ways;
}

// Weighs every output. Outputs are replicated, so a gradient that enters there counts once.
at::Tensor weigh_outputs(const State& outputs, const Batch&) {
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const auto& [name, output] : outputs)
    sum = sum + (output * at::linspace(-1, 1, output.size(-1), output.options())).mean();
  return sum;
}

void add_cases(std::vector<ClassCase>& cases, const TinyTrial& tiny, const std::string& precision,
               const Criterion& criterion) {
  static const std::vector<Way> ways = make_ways();
  Trial trial = tiny.trial(precision);
  trial.criterion = criterion;
  const std::string architecture = trial.model({.precision = precision}).architecture();
  const std::string name = tiny.name.starts_with(architecture) ? tiny.name : architecture + ", " + tiny.name;
  for (const Way& way : ways) {
    if (tiny.draws_for_samples && (way.data_ranks > 1 || way.micro_batches > 1)) continue;
    cases.push_back({architecture, way.how, way.column, way.ranks, {way.options, trial, name}});
    cases.back().job.options.precision = precision;
  }
}

}  // namespace

std::vector<ClassCase> class_cases() {
  std::vector<ClassCase> cases;
  const FamilyTrials trials = family_trials();
  std::vector<TinyTrial> models = trials.models;
  models.insert(models.end(), trials.packed.begin(), trials.packed.end());
  for (const TinyTrial& model : models)
    for (const std::string& precision : model.precisions) add_cases(cases, model, precision, {});
  for (const TinyTrial& base : trials.bases) add_cases(cases, base, "fp64", weigh_outputs);
  return cases;
}

}  // namespace weft::test
