#include "weft/booster.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/CPUGeneratorImpl.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/environment.hpp"
#include "base/json.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "booster/booster_state.hpp"
#include "booster/model_plan.hpp"
#include "booster/model_state.hpp"
#include "booster/plugins.hpp"
#include "checkpoint/model_files.hpp"
#include "error_sink.hpp"
#include "optim/optimizer_state.hpp"
#include "training/single_rank.hpp"

namespace weft {

namespace {

// A strategy that is ready to be made: its table, checked options, and what ranks must agree on.
struct ChosenStrategy {
  std::string name;
  const weft_strategy_api* api = nullptr;
  Options options;
  std::string identity;
};

ChosenStrategy choose_strategy(const BoosterOptions& booster) {
  ChosenStrategy chosen;
  const nlohmann::json given = parse_json(booster.options.empty() ? "{}" : booster.options, "options of the strategy");
  if (booster.strategy == "none") {
    chosen.name = "none";
    chosen.api = &single_rank();
    chosen.options = Options(OptionTable(), given, "no strategy (\"none\")");
    chosen.identity = "none";
    return chosen;
  }
  const weft_loaded loaded = load_plugin("strategy", booster.strategy);
  chosen.name = booster.strategy.empty() ? std::string(view(loaded.id)) : booster.strategy;
  const std::string source = fmt::format("plugin.json of {}", view(loaded.id));
  const nlohmann::json manifest = parse_json(view(loaded.manifest), source);
  chosen.options = Options(OptionTable(manifest.value("options", nlohmann::json::array()), source), given, "strategy " + chosen.name);
  const auto& factory = plugin_factory<weft_strategy_factory>(loaded, WEFT_FACTORY_STRATEGY);
  chosen.api = factory.find(borrow(chosen.name));
  if (chosen.api == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "plugin {} says that it provides strategy \"{}\", but makes none", view(loaded.path), chosen.name);
  chosen.identity = plugin_identity(loaded);
  return chosen;
}

// Every rank must have found the same plugins and the same configuration: what differs would be a hang later.
void require_agreement(const World& world, const std::string& identity) {
  if (world.size() == 1) return;
  const std::vector<std::string> all = world.communicator().gather_text(identity);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail(WEFT_FAILED_PRECONDITION, "ranks 0 and {} differ: rank 0 has\n{}\nrank {} has\n{}\ninstall the same plugins and give the "
           "same options on every host", rank, all[0], rank, all[rank]);
}

void seed_generator(int64_t seed, uint32_t data_rank) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  // Data-parallel ranks draw different dropout masks.
  generator.set_current_seed(static_cast<uint64_t>(seed) + 0x9E3779B97F4A7C15ull * data_rank);
}

}  // namespace

Booster::Booster(BoosterOptions options, World world) : shared_(std::make_shared<Shared>()) {
  shared_->options = std::move(options);
  shared_->world = std::move(world);
}

const BoosterOptions& Booster::options() const { return shared_->options; }
const World& Booster::world() const { return shared_->world; }

Job Booster::boost(Model model, optim::Optimizer optimizer, Criterion criterion, data::Loader data, optim::Scheduler schedule) {
  const BoosterOptions& options = shared_->options;
  Model::Shared& shared = model.shared();
  if (shared.training != nullptr) fail(WEFT_FAILED_PRECONDITION, "{} is boosted already; open it again", model.architecture());
  if (shared.precision != options.precision)
    fail(WEFT_INVALID_ARGUMENT, "the model was opened in {}, but the booster's precision is {}; open it with the same", shared.precision,
         options.precision);
  ChosenStrategy strategy = choose_strategy(options);
  std::string policy;
  const plan::Plan plan = make_plan(model.module(), {}, &policy);
  require_agreement(shared_->world, fmt::format("  {}\n  {}\n  {}\n  options {}\n  precision {} recompute {} seed {}\n  plan {}\n  {}",
                                                strategy.identity, shared.library, policy, strategy.options.to_json().dump(),
                                                options.precision, options.recompute, options.seed, plan.digest,
                                                model.config().dump()));
  if (data && data.options().ranks > shared_->world.size())
    fail(WEFT_INVALID_ARGUMENT, "the data loader splits batches over {} ranks, but there are {}", data.options().ranks,
         shared_->world.size());
  std::shared_ptr<ParameterSource> source;
  if (!shared.weights.empty()) source = checkpoint::weight_source(shared.weights, model.module());
  const std::vector<weft_kv> values(strategy.options.data(), strategy.options.data() + strategy.options.size());
  shared.training = std::make_shared<weft_training>(
      shared_->world, shared.module, strategy.api, strategy.name, values,
      TrainingOptions{options.precision, options.recompute, options.seed}, std::move(source));
  seed_generator(options.seed, shared.training->data_rank());
  if (optimizer) optimizer.shared().attach(shared.training);
  Job job;
  job.model = std::move(model);
  job.optimizer = std::move(optimizer);
  job.criterion = std::move(criterion);
  job.data = std::move(data);
  job.schedule = std::move(schedule);
  job.accumulate = options.accumulate;
  job.max_grad_norm = options.max_grad_norm;
  return job;
}

void Booster::backward(const at::Tensor& loss, optim::Optimizer& optimizer) {
  if (optimizer.shared().training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "backward needs a boosted optimizer: pass it to Booster::boost first");
  optimizer.shared().training->backward(loss);
}

Booster::NoSync::NoSync(Model model) : model_(std::move(model)) {
  if (model_.shared().training == nullptr) fail(WEFT_FAILED_PRECONDITION, "no_sync needs a boosted model");
  model_.shared().training->set_synchronise(false);
}
Booster::NoSync::~NoSync() { model_.shared().training->set_synchronise(true); }

data::Loader Booster::prepare_dataloader(std::shared_ptr<data::Dataset> dataset, int64_t batch_size, bool shuffle, int64_t seed,
                                         bool drop_last, bool pin_memory, int64_t num_workers, std::shared_ptr<data::Sampler> sampler) {
  data::LoaderOptions options;
  options.ranks = shared_->world.size();
  options.rank = shared_->world.rank();
  options.batch_size = batch_size * options.ranks;
  options.shuffle = shuffle;
  options.seed = seed;
  options.drop_last = drop_last;
  options.pin_memory = pin_memory;
  options.num_workers = num_workers;
  options.sampler = std::move(sampler);
  return data::Loader(std::move(dataset), options);
}

}  // namespace weft
