#include "weft/booster.hpp"

#include <c10/util/ScopeExit.h>
#include <torch/version.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "apply/adapter.hpp"
#include "base/error_sink.hpp"
#include "base/json.hpp"
#include "base/options.hpp"
#include "base/sha256.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "booster/booster_state.hpp"
#include "booster/chosen_strategy.hpp"
#include "booster/option_checks.hpp"
#include "booster/running.hpp"
#include "checkpoint/model_files.hpp"
#include "comm/agreement.hpp"
#include "device/arithmetic.hpp"
#include "device/device.hpp"
#include "files/fingerprint.hpp"
#include "host/launch/activity.hpp"
#include "loader/fingerprint.hpp"
#include "log.hpp"
#include "opening/model_plan.hpp"
#include "opening/model_state.hpp"
#include "opening/objective_library.hpp"
#include "optim/optimizer_state.hpp"
#include "parallel.hpp"
#include "plugins.hpp"
#include "schedule/text.hpp"
#include "training/generators.hpp"
#include "training/single_rank.hpp"

namespace weft {

namespace {

nlohmann::json optimizer_facts(const optim::Optimizer& optimizer, const optim::Scheduler& schedule) {
  if (!optimizer) return nullptr;
  nlohmann::json groups = nlohmann::json::array();
  for (const optim::Group& group : optimizer.shared().groups)
    groups.push_back({{"options", group.options}, {"parameters", group.parameters.names}});
  nlohmann::json facts = {{"name", optimizer.rule().name()}, {"groups", groups}};
  if (schedule) facts["schedule"] = schedule.schedule().identity();
  return facts;
}

// Reads samples if there is a rank to compare them with.
nlohmann::json data_facts(const data::Loader& data, bool compared) {
  if (!data) return nullptr;
  const data::LoaderOptions& options = data.options();
  return {{"samples", data.dataset().size()},
          {"batch_size", options.batch_size},
          {"ranks", options.ranks},
          {"shuffle", options.shuffle},
          {"seed", options.seed},
          {"drop_last", options.drop_last},
          {"objective", data.dataset().objective()},
          {"content", compared ? data::compared_content(data.dataset()) : ""}};
}

nlohmann::json adapter_facts(const nn::Model& model) {
  const std::optional<Adapter> adapter = adapter_of(model);
  if (!adapter || adapter->operation == nullptr) return nullptr;
  nlohmann::json facts = {{"operation", adapter->operation->id}, {"parameters", adapter->parameters}};
  for (const plan::Attribute& attribute : adapter->attributes)
    facts["attributes"][attribute.key] = {attribute.integer, attribute.real, attribute.text};
  return facts;
}

nlohmann::json schedule_facts(const PipelineOptions& options) {
  if (options.schedule == nullptr) return nullptr;
  return "operations with SHA-256 " + sha256_hex(pipeline::rows(*options.schedule));
}

// What begins a training: initial values, or the content of a checkpoint.
nlohmann::json weight_facts(const Model::Shared& model, const std::string& content) {
  if (model.weights.empty()) return "initial values";
  return content.empty() ? "a checkpoint" : "a checkpoint with content " + content;
}

// Checks that the loader gives this rank its own part of each batch. Otherwise some samples would be trained
// on twice.
void check_data(const data::Loader& data, const Mesh& mesh) {
  if (!data) return;
  const data::LoaderOptions& options = data.options();
  if (options.ranks != mesh.data_size() || options.rank != mesh.data_rank())
    fail(WEFT_INVALID_ARGUMENT,
         "the data loader gives part {} of {} of every batch, but this rank is data-parallel rank {} of {}; "
         "make the loader with Booster::prepare_dataloader",
         options.rank, options.ranks, mesh.data_rank(), mesh.data_size());
}

}  // namespace

namespace {

// libtorch otherwise starts them in its first operation, where signals are as the application has them.
void start_threads_of_operations() {
  const BlockSignals in_new_threads;
  kernels::parallel_for(0, kernels::parallel_parts(), 1, [](int64_t, int64_t) {});
}

}  // namespace

Booster::Booster(BoosterOptions options, World world) : shared_(std::make_shared<Shared>()) {
  check_values(options, [](const std::string& option) { return "booster: " + option; });
  device::use(options.device, world.local_rank(), world.local_size());
  shared_->precision = resolve_precision(options);
  if (options.allow_tf32) check_tf32_has_effect(options, shared_->precision);
  device::allow_tf32(options.allow_tf32);
  if (options.deterministic) device::make_deterministic();
  if (options.enable_cuda_graph) check_graphs_are_possible(options);
  start_threads_of_operations();
  shared_->options = std::move(options);
  shared_->world = std::move(world);
}

const BoosterOptions& Booster::options() const {
  return shared_->options;
}
const std::string& Booster::precision() const {
  return shared_->precision;
}
const World& Booster::world() const {
  return shared_->world;
}
int64_t Booster::data_rank() const {
  return shared_->mesh().data_rank();
}
int64_t Booster::data_size() const {
  return shared_->mesh().data_size();
}

const Mesh& Booster::Shared::mesh() {
  if (mesh_) return *mesh_;
  const ChosenStrategy chosen = choose_strategy(options);
  const weft_strategy_arguments arguments = strategy_arguments(
      chosen.name, chosen.options.data(), chosen.options.size(), world.size(), world.rank(), precision);
  ErrorSink error;
  weft_strategy* strategy = nullptr;
  error.check(chosen.api->create(chosen.api, &arguments, &strategy, error), chosen.name);
  const auto destroy = c10::make_scope_exit([&] { chosen.api->destroy(strategy); });
  mesh_ = Mesh(described_mesh(*chosen.api, strategy, chosen.name, static_cast<uint32_t>(world.size()),
                              chosen.host.plan_flags.tensor, chosen.host.pipeline.size),
               world, chosen.name, chosen.host.plan_flags.sequence, chosen.host.pipeline.order);
  return *mesh_;
}

nlohmann::json Booster::Shared::facts_of(const Job& job, const ChosenStrategy& strategy,
                                         const ChosenLoss& loss, const std::string& content) const {
  const Model::Shared& model = job.model.shared();
  nlohmann::json facts;
  BoosterOptions::each(options, [&](const char* name, const auto& value) { facts[name] = value; });
  // Compared by what was made of them.
  facts["strategy"] = strategy.identity;
  facts.erase("options");
  facts.erase("objective");
  facts.erase("objective_options");
  if (!options.checkpoint_io.empty())
    facts["checkpoint_io"] = checkpoint::format_named(options.checkpoint_io).identity;
  facts["precision"] = precision;
  facts["accumulate"] = job.accumulate;
  facts["max_grad_norm"] = job.max_grad_norm;
  facts.update({{"Weft", view(weft_version())},
                {"libtorch", TORCH_VERSION},
                {"strategy option", strategy.options.to_json()},
                {"model library", model.library},
                {"architecture", job.model.architecture()},
                {"config.json", nlohmann::json::parse(job.model.config().dump())},
                {"adapter", adapter_facts(*model.module)},
                {"weights",
                 strategy.host.values_of_rank_0 ? nlohmann::json("of rank 0") : weight_facts(model, content)},
                {"communication backend of the device", device::current().backend()},
                {"schedule_file", schedule_facts(strategy.host.pipeline)},
                {"optimizer", optimizer_facts(job.optimizer, job.schedule)},
                {"criterion", job.criterion ? "the caller's" : "the model's loss"},
                {"objective", loss.identity()},
                {"data", data_facts(job.data, world.size() > 1)}});
  return facts;
}

Booster::Shared::Made Booster::Shared::make_training(const Job& job, std::shared_ptr<ParameterSource> source,
                                                     const std::string& content) const {
  const Model::Shared& model = job.model.shared();
  ChosenStrategy strategy;
  nlohmann::json facts, found_in;
  ChosenLoss loss;
  on_every_rank(world.communicator(), [&] {
    if (model.precision != precision)
      fail(WEFT_INVALID_ARGUMENT,
           "the model was opened in {}, but the booster's precision is {}; open it with the same",
           model.precision, precision);
    loss = open_objective(options.objective, options.objective_options, job.model);
    if (loss && job.criterion) refuse_two_losses(loss.name());
    strategy = choose_strategy(options);
    read_schedule(strategy.host.pipeline, job.accumulate);
    facts = facts_of(job, strategy, loss, content);
    found_in = {{"weights", model.weights}, {"data", job.data ? job.data.dataset().name() : ""}};
  });
  require_agreement(world.communicator(), facts, found_in);
  HostOptions& host = strategy.host;
  const std::vector<weft_kv> values(strategy.options.data(),
                                    strategy.options.data() + strategy.options.size());
  auto training = std::make_shared<Training>(
      world, model.module, strategy.api, strategy.name, values,
      TrainingOptions{options, precision, host, loss}, std::move(source), [&](const Mesh& mesh) {
        plan::ParallelSizes sizes = host.plan_flags;
        sizes.tensor = mesh.place(Mesh::tensor()).size;
        std::string policy;
        plan::Plan plan;
        on_every_rank(world.communicator(), [&] {
          check_data(job.data, mesh);
          plan = make_plan(*model.module, sizes, host.custom_policy, &policy);
          if (plan.policy.empty())
            log(WEFT_LOG_INFO, fmt::format("no shard policy for {}: data axes only", plan.architecture));
        });
        require_agreement(world.communicator(), {{"shard policy", policy}, {"plan", plan.digest}});
        if ((job.criterion || loss) && plan::divides_logits(plan))
          refuse_criterion(loss ? "the objective " + loss.name() : "a criterion", sizes.tensor,
                           sizes.sequence);
        return plan;
      });
  require_same_plugins(world.communicator());
  if (host.scaler) training->bindings().set_loss_scale(host.scaler->initial_scale);
  return {std::move(training), std::move(host)};
}

Job Booster::boost(Model model, optim::Optimizer optimizer, Criterion criterion, data::Loader data,
                   optim::Scheduler schedule) {
  const Activity activity("the preparation of " + model.architecture());
  const BoosterOptions& options = shared_->options;
  Job job;
  job.model = std::move(model);
  job.optimizer = std::move(optimizer);
  job.criterion = std::move(criterion);
  job.data = std::move(data);
  job.schedule = std::move(schedule);
  job.accumulate = options.accumulate;
  job.max_grad_norm = options.max_grad_norm;
  Model::Shared& boosted = job.model.shared();
  if (boosted.training != nullptr)
    fail(WEFT_FAILED_PRECONDITION,
         "{} is boosted already; open it again, or move its job to another strategy with take_over",
         job.model.architecture());
  if (boosted.divided)
    fail(WEFT_FAILED_PRECONDITION, "{} is divided already by ShardFormer; open it again for a Booster",
         job.model.architecture());
  std::shared_ptr<ParameterSource> source;
  std::string content;
  on_every_rank(shared_->world.communicator(), [&] {
    if (boosted.weights.empty()) return;
    source = checkpoint::weight_source(boosted.weights, options.checkpoint_io, job.model.module(),
                                       boosted.missing, shared_->world.is_master(), boosted.new_head);
    if (shared_->world.size() > 1)
      content = checkpoint::compared_content(checkpoint::Reader(boosted.weights, options.checkpoint_io));
  });
  const auto [training, host] = shared_->make_training(job, std::move(source), content);
  training->bindings().check_replicas(Bindings::Origin::kBoosted);
  if (job.optimizer) {
    optim::Optimizer::Shared& optimizing = job.optimizer.shared();
    optimizing.attach(shared_bindings(training));
    optimizing.backward = [training = training.get()](const at::Tensor& loss) { training->backward(loss); };
    optimizing.max_norm = host.max_norm;
    optimizing.norm_type = host.norm_type;
    if (host.scaler) optimizing.scaler.emplace(*host.scaler);
  }
  if (!(job.max_grad_norm > 0)) job.max_grad_norm = host.max_norm;
  boosted.training = training;
  seed_generator(static_cast<uint64_t>(options.seed), training->bindings().mesh());
  return job;
}

void Booster::backward(const at::Tensor& loss, optim::Optimizer& optimizer) {
  if (optimizer.shared().training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "backward needs a boosted optimizer: pass it to Booster::boost first");
  optimizer.shared().backward(loss);
}

Booster::NoSync::NoSync(Model model) : model_(std::move(model)) {
  if (model_.shared().training == nullptr) fail(WEFT_FAILED_PRECONDITION, "no_sync needs a boosted model");
  before_ = model_.shared().training->synchronise();
  model_.shared().training->set_synchronise(false);
}
Booster::NoSync::~NoSync() {
  model_.shared().training->set_synchronise(before_);
}

data::Loader Booster::prepare_dataloader(std::shared_ptr<data::Dataset> dataset, int64_t batch_size,
                                         bool shuffle, int64_t seed, bool drop_last, bool pin_memory,
                                         int64_t num_workers, std::shared_ptr<data::Sampler> sampler) {
  data::LoaderOptions options;
  options.ranks = data_size();
  options.rank = data_rank();
  if (__builtin_mul_overflow(batch_size, options.ranks, &options.batch_size))
    fail(WEFT_INVALID_ARGUMENT,
         "prepare_dataloader: batch_size is {} on each of {} data-parallel ranks, must be at most {}",
         batch_size, options.ranks, std::numeric_limits<int64_t>::max() / options.ranks);
  options.shuffle = shuffle;
  options.seed = seed;
  options.drop_last = drop_last;
  options.pin_memory = pin_memory;
  options.num_workers = num_workers;
  options.sampler = std::move(sampler);
  return data::Loader(std::move(dataset), options);
}

}  // namespace weft
