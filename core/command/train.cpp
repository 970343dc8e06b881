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
#include "command/command.hpp"
#include "command/device_choice.hpp"
#include "command/job_files.hpp"
#include "command/job_text.hpp"
#include "command/optimizer_flags.hpp"
#include "command/progress.hpp"
#include "command/saves.hpp"
#include "command/step_metrics.hpp"
#include "command/time_table.hpp"
#include "command/trace_file.hpp"
#include "device/counting_allocator.hpp"
#include "device/tensors.hpp"
#include "host/launch/rank_signals.hpp"
#include "opening/model_state.hpp"
#include "plugins.hpp"
#include "trace/phases.hpp"
#include "weft/nn/model.hpp"
#include "weft/stop_signals.hpp"

namespace weft::command {

namespace fs = std::filesystem;

namespace {

data::Loader make_loader(const Settings& arguments, const Model& model, const Booster& booster) {
  const DataOpener opener =
      data_of(arguments, model, booster.world(), booster.options().seed, data::Part::kTraining);
  data::LoaderOptions options;
  options.batch_size = arguments.integer("batch_size");
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

int64_t total_steps(const Settings& arguments, const data::Loader& loader) {
  if (arguments.given("steps")) return arguments.integer("steps");
  const int64_t epochs = arguments.integer("epochs", 1), most = INT64_MAX / loader.batches_per_epoch();
  if (epochs > most)
    fail(WEFT_INVALID_ARGUMENT, "--epochs is {}, must be at most {} with {} steps per epoch", epochs, most,
         loader.batches_per_epoch());
  return epochs * loader.batches_per_epoch();
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

// Throws ABORTED if training has diverged. `skipped` is the number of consecutive steps without an update.
void check_finite(const StepResult& result, int64_t step, int64_t skipped) {
  constexpr int64_t kMostSkipped = 200;
  if (skipped > kMostSkipped && result.loss == 0)
    fail(WEFT_ABORTED,
         "no label counts in {} batches in a row, so that nothing can be learned from them: check the labels "
         "(--data), or give a larger --sequence-length",
         skipped);
  if (skipped > kMostSkipped)
    fail(WEFT_ABORTED,
         "{} steps in a row overflowed, down to a loss scale of {}: lower --lr, check the data, or use bf16",
         skipped, *result.loss_scale);
  if (!result.updated && std::isfinite(result.loss)) return;
  const bool loss = std::isfinite(result.loss);
  if (loss && std::isfinite(result.grad_norm.value_or(0))) return;
  fail(WEFT_ABORTED, "the {} of step {} is {}: lower --lr, clip with --max-grad-norm, or check the data",
       loss ? "gradient's norm" : "loss", step, loss ? *result.grad_norm : result.loss);
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
  if (arguments.given("resume"))
    saved = checkpoint::saved_device(fs::path(resume_folder(arguments.text("resume"))) /
                                     checkpoint::kStateFolder);
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

void load_batch(data::Loader& data, Batch& batch) {
  const trace::InPhase loading(trace::Phase::kData);
  const trace::Span span([] { return trace::begin("load a batch", "data"); });
  if (!data.next(batch) && !data.next(batch)) fail(WEFT_INTERNAL, "the data has no batch");
}

// Returns the name of this rank in a trace.
std::string rank_name(const Bindings& bindings) {
  const std::string rank = fmt::format("rank {}", bindings.world().rank());
  if (bindings.stages().virtual_stages() == 1) return rank;
  return fmt::format("{}, stage {}", rank, bindings.mesh().place(Mesh::stages()).rank);
}

// Trains until the last step or a signal. Returns true if it was a signal.
bool run_steps(Booster& booster, Job& job, int64_t total, const SavePlan& save, Grace& grace,
               StepMetrics& metrics, TimeTable& times) {
  Progress progress(job.optimizer.steps(), total, booster.world().is_master());
  Batch batch;
  int64_t skipped = 0;
  bool stopping = false;
  for (int64_t step = job.optimizer.steps() + 1; step <= total; step = job.optimizer.steps() + 1) {
    load_batch(job.data, batch);
    if (stopping || save.is_due(step, total)) job.check_next_step();
    const StepResult result = job.train_step(batch);
    skipped = result.updated ? 0 : skipped + 1;
    check_finite(result, step, skipped);
    times.add(result, batch);
    metrics.write(result, step);
    progress.step(result, step, device::memory_use().peak);
    if (result.stop) {
      // What is saved then was compared: by this step, or by one more.
      const bool compares = booster.options().check_agreement >= 0 && !save.folder.empty();
      if (stopping || result.checked || !compares || step == total || !grace.allows_step(booster, result))
        return true;
      stopping = true;
      continue;
    }
    if (save.is_due(step, total) && step < total) {
      const trace::InPhase saving(trace::Phase::kSaving);
      const trace::Span span([] { return trace::begin("save", "checkpoint"); });
      booster.save_training(job, save.step_folder(step, booster.world()), {.background = save.background});
      grace.look_at(booster);
    }
  }
  return false;
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
bool has_incomplete_records(const StepMetrics& metrics, const TraceFile& trace, const World& world) {
  std::vector<std::string> names = metrics.incomplete();
  if (trace.failed()) names.push_back(trace.named());
  const Communicator& ranks = world.communicator();
  const std::string text = ranks.broadcast_text(fmt::format("{}", fmt::join(names, " and ")), 0);
  if (text.empty()) return false;
  world.print_on_master(fmt::format("weft: train: {} could not be written to the end", text));
  if (world.is_master()) report_explained(world.rank());
  return true;
}

// Trains, and saves at the end. Returns the signal that stopped it, if one did.
std::optional<StopSignals::Stop> run_and_save(const Settings& arguments, Booster& booster, Job& job,
                                              int64_t total, const SavePlan& save, const StopSignals& signals,
                                              StepMetrics& metrics, TimeTable& times) {
  const World& world = booster.world();
  const int64_t begun = job.optimizer.steps();
  std::optional<StopSignals::Stop> stop;
  Grace grace(arguments);
  try {
    if (run_steps(booster, job, total, save, grace, metrics, times)) {
      stop = signals.agree(world);
      world.print_on_master(
          fmt::format("stopped after step {} of {} ({})", job.optimizer.steps(), total, stop->text));
    }
    if (save.folder.empty()) return stop;
    const trace::InPhase saving(trace::Phase::kSaving);
    booster.save_training(job, save.folder);
    grace.look_at(booster);
    world.print_on_master(fmt::format("saved {}", save.folder));
    return stop;
  } catch (const UnverifiedError&) {
    save_unverified(booster, job, save, begun);
    throw;
  }
}

}  // namespace

int train(const Settings& arguments) {
  count_memory();
  const World world = join_job(arguments);
  ignore_broken_pipes();
  BoosterOptions options = booster_options(arguments, "");
  options.device = device_of_job(arguments, options, world);
  const SavePlan save{arguments.text("output"), arguments.integer("save_every", 0),
                      arguments.flag("save_async")};
  on_every_rank(world.communicator(), [&] { check_outputs(arguments, options); });
  const checkpoint::FolderLock save_lock = reserve(save, options.checkpoint_io, world);
  Model model = open_model(arguments, resolve_precision(options), world, checkpoint::Missing::kHead);
  TimeTable times(model, arguments.text("peak_tflops"), world);
  std::optional<Booster> made;
  data::Loader loader;
  on_every_rank(world.communicator(), [&] {  // one may lack the device, the strategy's plugin or the data
    made.emplace(options, world);
    loader = make_loader(arguments, model, *made);
  });
  Booster& booster = *made;
  const int64_t total = total_steps(arguments, loader);
  optim::Optimizer optimizer = make_optimizer(arguments, model);
  optim::Scheduler schedule = make_scheduler(arguments, optimizer, total);
  StepMetrics metrics(arguments.text("metrics"), arguments.text("tensorboard"), world);
  TraceFile trace_file(arguments.text("trace"), world);

  const int64_t elements = model.num_elements();
  Job job = booster.boost(model, optimizer, {}, loader, schedule);
  const std::string& strategy = model.shared().bindings().strategy_name();
  job.configuration = job_yaml(arguments, options, strategy, JobText::kRepeatable);
  dump_config(arguments, booster, strategy);
  load_values(arguments, booster, job, total);
  world.print_on_master(fmt::format("{}: {} parameters, {} samples, {} rank{}, strategy {}, {} steps ({})",
                                    model.architecture(), count_text(elements), loader.dataset().size(),
                                    world.size(), world.size() == 1 ? "" : "s", strategy, total,
                                    plugins_text()));
  metrics.begin(arguments.given("resume") ? std::optional(job.optimizer.steps()) : std::nullopt);
  trace_file.begin();
  times.begin();
  const StopSignals signals(job);
  const auto stop = run_and_save(arguments, booster, job, total, save, signals, metrics, times);
  // After the save, which must not lack the room.
  trace_file.write(rank_name(model.shared().bindings()));
  times.print(model.shared().bindings());
  const bool incomplete = has_incomplete_records(metrics, trace_file, world);
  world.block_all();
  return stop ? 128 + stop->signal : incomplete ? 1 : 0;
}

}  // namespace weft::command
