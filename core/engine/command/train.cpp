// `weft train`.
#include <ATen/ops/tensor.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/text.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "command/progress.hpp"
#include "log.hpp"
#include "memory/counting_allocator.hpp"
#include "weft/nn/model.hpp"

namespace weft::command {

namespace fs = std::filesystem;

namespace {

// Ctrl-C and SIGTERM end the step, save, and exit 130. A second one kills.
std::atomic<bool>* stop_flag = nullptr;
void on_signal(int signal) {
  if (stop_flag->exchange(true)) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}
class StopSignals {
 public:
  explicit StopSignals(Job& job) {
    stop_flag = job.stop_requested.get();
    for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, &on_signal);
  }
  ~StopSignals() {
    for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
  }
};

optim::Optimizer make_optimizer(const json& arguments, const Model& model) {
  optim::Hyper options;
  const auto take = [&](const char* key) {
    if (given(arguments, key)) options[key] = real(arguments, key, 0);
  };
  take("lr");
  take("weight_decay");
  take("momentum");
  take("eps");
  if (given(arguments, "betas")) {
    const auto betas = arguments.at("betas").get<std::vector<double>>();
    if (betas.size() != 2) fail(WEFT_INVALID_ARGUMENT, "--betas takes two numbers, 0.9,0.999 say; got {}", betas.size());
    options["beta1"] = betas[0];
    options["beta2"] = betas[1];
  }
  return optim::Optimizer(text(arguments, "optimizer", "adamw"), model.parameters(), options);
}

data::Loader make_loader(const json& arguments, const Model& model, const World& world, int64_t accumulate) {
  data::LoaderOptions options;
  options.batch_size = integer(arguments, "batch_size", 8);
  options.rank = world.rank();
  options.ranks = world.size();
  options.shuffle = !flag(arguments, "no_shuffle");
  options.seed = integer(arguments, "seed", 42);
  if (options.batch_size / options.ranks < accumulate)
    fail(WEFT_INVALID_ARGUMENT, "--batch-size {} over {} ranks leaves {} samples a rank, fewer than --accumulate {}", options.batch_size,
         options.ranks, options.batch_size / options.ranks, accumulate);
  return data::Loader(open_data(arguments, "data", model), options);
}

int64_t total_steps(const json& arguments, const data::Loader& loader) {
  if (given(arguments, "steps") && given(arguments, "epochs"))
    fail(WEFT_INVALID_ARGUMENT, "--steps and --epochs exclude each other; give one");
  const int64_t steps = given(arguments, "steps") ? integer(arguments, "steps", 0)
                                                  : integer(arguments, "epochs", 1) * loader.batches_per_epoch();
  if (steps < 1) fail(WEFT_INVALID_ARGUMENT, "--steps or --epochs must be at least 1");
  return steps;
}

// The folder itself, or its newest step-N.
std::string resume_folder(const std::string& path) {
  if (fs::exists(fs::path(path) / "training_state")) return path;
  int64_t newest = -1;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || name.find_first_not_of("0123456789", 5) != std::string::npos || name.size() > 20) continue;
    if (fs::exists(entry.path() / "training_state")) newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
  }
  if (newest < 0)
    fail(WEFT_NOT_FOUND, "--resume {}: no training_state/ there and no step-N/ folder with one; save with --save first", path);
  return (fs::path(path) / fmt::format("step-{}", newest)).string();
}

class Metrics {
 public:
  Metrics(const std::string& path, const World& world, bool resumed) : world_(world), wanted_(!path.empty()) {
    if (!wanted_ || !world_.is_master()) return;
    file_.open(path, resumed ? std::ios::app : std::ios::trunc);
    if (!file_) fail(WEFT_UNAVAILABLE, "--metrics: cannot write {}", path);
  }
  void write(const StepResult& result, int64_t step) {
    if (!wanted_) return;
    const at::Tensor peak = at::tensor({peak_allocated_bytes()}, at::kLong);
    world_.communicator().all_reduce(peak, ReduceOp::kMax, true).wait();
    json bytes = json::object();
    for (const auto& [name, count] : communicated_bytes()) bytes[name] = count - std::exchange(before_[name], count);
    if (!world_.is_master()) return;
    json line = {{"step", step}, {"loss", result.loss}, {"lr", result.lr}, {"step_seconds", result.seconds},
                 {"tokens_per_second", result.tokens_per_second}, {"peak_memory_bytes", peak.item<int64_t>()},
                 {"communicated_bytes", bytes}};
    if (result.grad_norm) line["grad_norm"] = *result.grad_norm;
    file_ << line.dump() << '\n' << std::flush;
    if (!file_) fail(WEFT_RESOURCE_EXHAUSTED, "--metrics: writing failed (is the disk full?)");
  }

 private:
  const World& world_;
  bool wanted_;
  std::ofstream file_;
  std::map<std::string, int64_t> before_;
};

}  // namespace

int train(const json& arguments) {
  count_memory();
  check_device(arguments);
  const World world = launch();
  const BoosterOptions options = booster_options(arguments, "");
  Model model = open_model(arguments, options.precision);
  data::Loader loader = make_loader(arguments, model, world, options.accumulate);
  const int64_t total = total_steps(arguments, loader);
  optim::Optimizer optimizer = make_optimizer(arguments, model);
  const optim::ScheduleOptions schedule_options{integer(arguments, "warmup_steps", 0), total, 0};
  optim::Scheduler schedule(optimizer, optim::schedule(text(arguments, "lr_scheduler", "constant"), schedule_options));

  Booster booster(options, world);
  const int64_t elements = model.num_elements();
  Job job = booster.boost(model, optimizer, {}, loader, schedule);
  const std::string resume = text(arguments, "resume");
  if (!resume.empty()) booster.load_training(job, resume_folder(resume));
  world.print_on_master(fmt::format("{}: {:.1f} M parameters, {} samples, {} ranks, strategy {}, {} steps", model.architecture(),
                                    static_cast<double>(elements) / 1e6, loader.dataset().size(), world.size(),
                                    options.strategy.empty() ? "default" : options.strategy, total));

  const std::string save = text(arguments, "save");
  const int64_t save_every = integer(arguments, "save_every", 0);
  if (save_every > 0 && save.empty()) fail(WEFT_INVALID_ARGUMENT, "--save-every needs --save DIR");
  Metrics metrics(text(arguments, "metrics"), world, !resume.empty());
  StopSignals signals(job);
  bool stopped = false;
  {
    Progress progress(job.optimizer.steps(), total, world.is_master());
    Batch batch;
    for (int64_t step = job.optimizer.steps() + 1; step <= total && !stopped; ++step) {
      if (!job.data.next(batch) && !job.data.next(batch)) fail(WEFT_INTERNAL, "the data has no batch");
      const StepResult result = job.train_step(batch);
      if (!std::isfinite(result.loss))
        fail(WEFT_ABORTED, "the loss of step {} is {}: lower --lr, clip with --max-grad-norm, or check the data", step, result.loss);
      metrics.write(result, step);
      progress.step(result, step, peak_allocated_bytes());
      stopped = result.stop;
      if (save_every > 0 && step % save_every == 0 && step < total && !stopped)
        booster.save_training(job, (fs::path(save) / fmt::format("step-{}", step)).string());
    }
  }
  if (!save.empty()) booster.save_training(job, save);
  if (!save.empty()) world.print_on_master(fmt::format("saved {}", save));
  return stopped ? 130 : 0;
}

}  // namespace weft::command
