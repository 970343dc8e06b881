// `weft train`.
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "base/replaced_file.hpp"
#include "base/text.hpp"
#include "booster/host_options.hpp"
#include "checkpoint/training_state.hpp"
#include "comm/agreement.hpp"
#include "command/arguments.hpp"
#include "command/batch_size.hpp"
#include "command/command.hpp"
#include "command/device_choice.hpp"
#include "command/evaluation_sets.hpp"
#include "command/job_files.hpp"
#include "command/job_text.hpp"
#include "command/optimizer_flags.hpp"
#include "command/recipe.hpp"
#include "command/saves.hpp"
#include "command/time_table.hpp"
#include "command/trace_file.hpp"
#include "device/counting_allocator.hpp"
#include "device/tensors.hpp"
#include "host/launch/rank_signals.hpp"
#include "opening/model_state.hpp"
#include "plugins.hpp"
#include "trace/phases.hpp"
#include "trainer/chosen_hooks.hpp"
#include "trainer/library_hooks.hpp"
#include "weft/hooks.hpp"
#include "weft/nn/model.hpp"
#include "weft/stop_signals.hpp"

namespace weft::command {

namespace fs = std::filesystem;

namespace {

data::Loader make_loader(const Settings& arguments, const Model& model, const Booster& booster) {
  const DataOpener opener =
      data_of(arguments, model, booster.world(), booster.options().seed, data::Part::kTraining);
  data::LoaderOptions options;
  // While the batch size is sought, the smallest one.
  options.batch_size = arguments.flag("auto_batch_size") ? booster.data_size() * booster.options().accumulate
                                                         : arguments.integer("batch_size");
  options.rank = booster.data_rank();
  options.ranks = booster.data_size();
  options.shuffle = !arguments.flag("no_shuffle");
  options.drop_last = arguments.flag("drop_last");
  options.seed = booster.options().seed;
  options.num_workers = opener.loader_workers("data");
  data::Loader loader(opener.labelled(), options);
  if (options.batch_size / options.ranks < booster.options().accumulate)
    fail(WEFT_INVALID_ARGUMENT,
         "--batch-size {} over {} ranks leaves {} samples a rank, fewer than --accumulate {}; give a larger "
         "batch, or a smaller --accumulate",
         options.batch_size, options.ranks, options.batch_size / options.ranks, booster.options().accumulate);
  return loader;
}

// Throws on every rank if a loaded parameter has a value that is not finite.
void check_loaded_values(Bindings& bindings, const std::string& source) {
  bindings.world().priority_execution([&] {
    for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK))
      if (!std::isfinite(device::value_of<double>(shard.value.sum(at::kDouble))))
        fail(WEFT_DATA_LOSS,
             "{}: parameter {} has values that are not finite (nan or inf), from which training cannot "
             "start; use a checkpoint of an earlier step",
             source, shard.param->name);
  });
}

std::string count_text(int64_t count) {
  const auto number = static_cast<double>(count);
  if (number >= 1e6) return fmt::format("{:.1f} M", number / 1e6);
  return number >= 1e3 ? fmt::format("{:.1f} k", number / 1e3) : std::to_string(count);
}

// Returns "ID VERSION, ID VERSION": the plugins that the job uses.
std::string plugins_text() {
  std::set<std::string> names;
  for (const UsedPlugin& plugin : used_plugins()) names.insert(plugin.id + " " + plugin.version);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns where the job computes, and says so.
std::string device_of_job(const Settings& arguments, const BoosterOptions& options, const World& world) {
  std::optional<std::string> saved;
  if (arguments.given("resume")) {
    const fs::path folder = resume_folder(arguments.text("resume"));
    const std::optional<json> state = checkpoint::saved_state(folder / checkpoint::kStateFolder);
    if (state && state->contains("device")) saved = state->at("device").get<std::string>();
  }
  const DeviceChoice choice = choose_device(arguments, options.device, saved, world);
  world.print_on_master(fmt::format("device {} ({})", choice.device, choice.reason));
  return choice.device;
}

// Writes the file of --dump-config on the master. Throws on every rank if that fails. Collective.
void dump_config(const Settings& arguments, const Booster& booster, const std::string& strategy) {
  if (!arguments.given("dump_config")) return;
  const std::string path = arguments.text("dump_config"),
                    named = arguments.called("dump_config") + " " + path;
  on_master(booster.world().communicator(), [&] {
    const std::string extension = fs::path(path).extension().string();
    if (extension == ".json")
      return replace_file(path, job_json(arguments, booster.options(), strategy), named);
    if (extension != ".yaml" && extension != ".yml")
      fail(WEFT_INVALID_ARGUMENT, "{}: the name must end in .yaml, .yml or .json", named);
    replace_file(path, job_yaml(arguments, booster.options(), strategy, JobText::kWhole), named);
  });
}

// Throws if an output is a file that the job reads, or another output.
void check_outputs(const Settings& arguments, const BoosterOptions& options) {
  JobFiles files(arguments);
  files.reads_options(options);
  files.writes_given(arguments);
}

void check_steps_left(const std::string& folder, int64_t done, int64_t total, const World& world) {
  if (done > total)
    fail(WEFT_INVALID_ARGUMENT,
         "{} was saved after step {}, but this training ends at step {}: --steps (or --epochs) includes the "
         "steps before --resume; give more",
         folder, done, total);
  if (done == total)
    world.print_on_master(fmt::format("all {} steps are done: there is nothing to train", total));
}

// Returns the name of this rank in a trace.
std::string rank_name(const Bindings& bindings) {
  const std::string rank = fmt::format("rank {}", bindings.world().rank());
  if (bindings.stages().virtual_stages() == 1) return rank;
  return fmt::format("{}, stage {}", rank, bindings.mesh().place(Mesh::stages()).rank);
}

// Resumes the job, if --resume is given, and checks the values with which it begins.
void load_values(const Settings& arguments, Booster& booster, Job& job, int64_t total) {
  Bindings& bindings = job.model.shared().bindings();
  if (!arguments.given("resume")) {
    // On every rank: with sync_module_states rank 0 alone may have weights.
    const std::string& weights = job.model.shared().weights;
    return check_loaded_values(bindings, weights.empty() ? "the initial values" : weights);
  }
  const World& world = booster.world();
  const std::string folder = resume_folder(arguments.text("resume"));
  booster.load_training(job, folder);
  check_resumed_flags(arguments, job.optimizer, job.schedule, folder);
  world.print_on_master(fmt::format("resumed {} after step {}", folder, job.optimizer.steps()));
  check_steps_left(folder, job.optimizer.steps(), total, world);
  check_loaded_values(bindings, folder);
}

// Says on the master which records could not be written to their end, and that this decides the exit code.
// Returns whether there are any, on every rank. Collective.
bool has_incomplete_records(const StepRecords& records, const TraceFile& trace, const World& world) {
  std::vector<std::string> names = records.incomplete();
  if (trace.failed()) names.push_back(trace.named());
  const Communicator& ranks = world.communicator();
  const std::string text = ranks.broadcast_text(fmt::format("{}", fmt::join(names, " and ")), 0);
  if (text.empty()) return false;
  world.print_on_master(fmt::format("weft: train: {} could not be written to the end", text));
  if (world.is_master()) report_explained(world.rank());
  return true;
}

std::shared_ptr<TextSamples> make_samples(const Settings& arguments) {
  if (!arguments.given("sample_every")) return nullptr;
  GenerationOptions options = GenerationOptions::load(arguments.text("model"), /*greedy=*/true);
  options.max_new_tokens = 40;
  return std::make_shared<TextSamples>(arguments.words("sample_prompt"), arguments.integer("sample_every"),
                                       options);
}

// How long the training is, and on what it is evaluated. Collective.
TrainerOptions trainer_options(const Settings& arguments, const Model& model, const Booster& booster) {
  TrainerOptions options;
  set_length(arguments, options);
  set_evaluation_times(arguments, options);
  options.evaluation = evaluation_sets(arguments, model, booster);
  return options;
}

struct Boosted {
  Job job;
  TrainerOptions training;
  int64_t total = 0;  // steps
};

// Boosts the model. --auto-batch-size becomes the --batch-size that fits. Collective.
Boosted boosted(Settings& arguments, const Model& model, Booster& booster, const data::Loader& loader) {
  Boosted made;
  optim::Optimizer optimizer = make_optimizer(arguments, model);
  const auto schedule = [&](const data::Loader& data) {
    made.training = trainer_options(arguments, model, booster);
    made.total = total_steps(made.training, data);
    return make_scheduler(arguments, optimizer, made.total);
  };
  if (!arguments.flag("auto_batch_size")) {
    made.job = booster.boost(model, optimizer, {}, loader, schedule(loader));
    return made;
  }
  const auto between_steps = memory_between_steps(model, booster.options(), booster.world().size());
  made.job = booster.boost(model, optimizer, {}, loader);
  arguments = with_fitting_batch(arguments, booster, made.job, between_steps);
  made.job.data = loader.with_batch_size(arguments.integer("batch_size"));
  made.job.schedule = schedule(made.job.data);
  return made;
}

// Returns the line that says what is trained, and how.
std::string description(const Model& model, int64_t elements, const data::Loader& loader,
                        const Booster& booster, int64_t steps) {
  const int64_t accumulate = booster.options().accumulate;
  const int ranks = booster.world().size();
  return fmt::format("{}: {} parameters, {} samples, {} rank{}, strategy {}, {} steps of {} samples{} ({})",
                     model.architecture(), count_text(elements), loader.dataset().size(), ranks,
                     ranks == 1 ? "" : "s", model.shared().bindings().strategy_name(), steps,
                     loader.options().batch_size,
                     accumulate > 1 ? fmt::format(" in {} micro-batches", accumulate) : "", plugins_text());
}

// Trains. What a failed comparison has left is saved under another name.
void run(const Settings& arguments, Trainer& trainer) {
  check_set_names(arguments, trainer);
  const int64_t begun = trainer.step();
  try {
    trainer.fit();
  } catch (const UnverifiedError&) {
    save_unverified(trainer, arguments.text("output"), begun);
    throw;
  }
}

}  // namespace

int train(const Settings& given) {
  count_memory();
  const World world = join_job(given);
  Settings arguments = with_recipe(given);
  ignore_broken_pipes();
  BoosterOptions options = booster_options(arguments, "");
  options.device = device_of_job(arguments, options, world);
  on_every_rank(world.communicator(), [&] { check_outputs(arguments, options); });
  const auto checkpoints = make_checkpoints(arguments, options.checkpoint_io, world);
  const std::vector<std::shared_ptr<HookInC>> chosen = library_hooks(arguments, world);
  Model model = open_model(arguments, resolve_precision(options), world, checkpoint::Missing::kHead);
  say_usual_rate(arguments, model, world);
  const auto times = std::make_shared<TimeTable>(model, arguments.text("peak_tflops"), world);
  std::optional<Booster> made;
  data::Loader loader;
  on_every_rank(world.communicator(), [&] {  // one may lack the device, the strategy's plugin or the data
    made.emplace(options, world);
    loader = make_loader(arguments, model, *made);
  });
  Booster& booster = *made;
  const std::shared_ptr<StepRecords> records = make_records(arguments, world);
  TraceFile trace_file(arguments.text("trace"), world);
  const int64_t elements = model.num_elements();
  auto [job, training, total] = boosted(arguments, model, booster, loader);
  const std::string& strategy = model.shared().bindings().strategy_name();
  job.configuration = job_yaml(arguments, options, strategy, JobText::kRepeatable);
  dump_config(arguments, booster, strategy);
  if (arguments.given("ema") && !job.average) job.average_weights(arguments.real("ema"));
  load_values(arguments, booster, job, total);
  world.print_on_master(description(model, elements, job.data, booster, total));
  const auto signals = std::make_shared<StopAfterSignal>(arguments, checkpoints != nullptr);
  const std::shared_ptr<NonFiniteGuard> guard = make_guard(arguments);
  // What prints and records comes before what saves.
  training.hooks = {guard, times, std::make_shared<Progress>(), records, signals, make_samples(arguments)};
  training.hooks.insert(training.hooks.end(), chosen.begin(), chosen.end());
  training.hooks.insert(training.hooks.end(), {make_early_stopping(arguments), checkpoints});
  std::erase(training.hooks, nullptr);
  Trainer trainer(booster, job, std::move(training));
  trace_file.begin();
  run(arguments, trainer);
  // After the save, which must not lack the room.
  trace_file.write(rank_name(model.shared().bindings()));
  times->print(model.shared().bindings());
  const bool incomplete = has_incomplete_records(*records, trace_file, world);
  world.block_all();
  if (guard && !guard->stopped().empty())
    fail(WEFT_ABORTED, "{}: take a lower learning rate, or look at these samples", guard->stopped());
  if (signals->stop()) return 128 + signals->stop()->signal;
  return incomplete ? 1 : 0;
}

}  // namespace weft::command
