// Moves a job from one strategy to another in memory.
#include "base/error_sink.hpp"
#include "base/text.hpp"
#include "booster/booster_state.hpp"
#include "checkpoint/average_files.hpp"
#include "checkpoint/optimizer_files.hpp"
#include "checkpoint/shard_pieces.hpp"
#include "comm/agreement.hpp"
#include "opening/model_state.hpp"
#include "opening/objective_library.hpp"
#include "training/generators.hpp"

namespace weft {

namespace {

// Leaves values zero: they come afterwards, from the ranks that have them.
class NoValues final : public ParameterSource {
 public:
  bool read(const std::string&, const Box&, const at::Tensor& destination) override {
    destination.zero_();
    return true;
  }
};

void check_same_loss(const ChosenLoss& before, const ChosenLoss& after) {
  if (before.identity() == after.identity()) return;
  const auto text = [](const ChosenLoss& loss) {
    return loss ? "the objective " + loss.identity() : "no objective of a library";
  };
  fail(WEFT_INVALID_ARGUMENT,
       "take_over: the job was boosted with {}, but this booster has {}; give its options the same objective",
       text(before), text(after));
}

void check_quiet(const Bindings& bindings, const ChosenLoss& after) {
  check_same_loss(bindings.options().loss, after);
  for (const auto& param : bindings.params())
    if (param->touched)
      fail(WEFT_FAILED_PRECONDITION,
           "take_over: {} has a gradient that no step has used; call step and zero_grad first", param->name);
}

// Returns the master values of shards as pieces, under the parameters' names and in their own dtype.
template <class Add>
checkpoint::Pieces master_pieces(const std::vector<Shard>& shards, const Add& add) {
  checkpoint::Pieces pieces;
  for (const Shard& shard : shards) {
    const weft_param& param = *shard.param;
    add(shard, {param.name, shard.value.scalar_type(), param.shape}, param.index, shard.value, pieces);
  }
  return pieces;
}

// Does the same with the tensors that a strategy keeps.
template <class Add>
checkpoint::Pieces kept_pieces(const std::vector<Kept>& kept, const Add& add) {
  checkpoint::Pieces pieces;
  for (const auto& [name, range] : kept) {
    const weft_param& param = *range.param;
    add(range, {name + "/" + param.name, range.value.scalar_type(), param.shape}, param.index, range.value,
        pieces);
  }
  return pieces;
}

void append(checkpoint::Pieces& pieces, checkpoint::Pieces more) {
  std::move(more.begin(), more.end(), std::back_inserter(pieces));
}

// Fills `wanted` on every rank from the pieces that all ranks hold. Collective.
void fill(const Communicator& ranks, const std::vector<checkpoint::TensorHolders>& all_holders,
          const checkpoint::Pieces& held, const checkpoint::Pieces& wanted) {
  std::map<std::string, std::vector<checkpoint::Wanted>> boxes;
  for (const checkpoint::TensorHolders& known : checkpoint::gather_holders(ranks, wanted))
    for (const checkpoint::TensorHolders::Holder& part : known.holders)
      boxes[known.tensor.name].push_back({part.rank, part.box});
  const checkpoint::PiecesByName own = checkpoint::by_name(held), targets = checkpoint::by_name(wanted);
  at::NoGradGuard no_grad;
  for (const checkpoint::TensorHolders& known : all_holders) {
    const std::string& name = known.tensor.name;
    checkpoint::exchange(ranks, known, own, boxes[name], [&](const Box& part, const at::Tensor& values) {
      for (const checkpoint::Piece* target : targets.at(name))
        if (intersection(target->box, part) == part) view_of(target->values, target->box, part).copy_(values);
    });
  }
}

// Fills what one strategy keeps with what another of the same name kept. Collective.
void move_kept(const Communicator& ranks, const std::vector<Kept>& before, const std::vector<Kept>& after) {
  const checkpoint::Pieces held = kept_pieces(before, checkpoint::add_held);
  fill(ranks, checkpoint::gather_holders(ranks, held), held, kept_pieces(after, checkpoint::add_wanted));
}

// Returns the tensors that are neither values of parameters nor averages: states of the optimizer.
std::vector<checkpoint::Entry> states_in(const std::vector<checkpoint::TensorHolders>& holders,
                                         const Bindings& bindings) {
  std::vector<checkpoint::Entry> entries;
  for (const checkpoint::TensorHolders& known : holders)
    if (bindings.find_param(known.tensor.name) == nullptr && !checkpoint::is_average(known.tensor.name))
      entries.push_back(known.tensor);
  return entries;
}

// Makes averages of the weights under `after`, which are to be filled.
void move_average(Job& job, Bindings& after, checkpoint::Pieces& wanted) {
  if (!job.average) return;
  job.average = std::make_shared<WeightAverage>(after, job.average->decay());
  checkpoint::want_averages(*job.average, wanted);
}

// Gives the optimizer to `after` with its states.
void move_optimizer(Job& job, const std::shared_ptr<Training>& after, const HostOptions& host,
                    checkpoint::SavedOptimizer& states) {
  optim::Optimizer::Shared& optimizer = job.optimizer.shared();
  optimizer.training = shared_bindings(after);
  optimizer.backward = [after = after.get()](const at::Tensor& loss) { after->backward(loss); };
  optimizer.scaler.reset();
  if (host.scaler) optimizer.scaler.emplace(*host.scaler);
  states.apply(job.optimizer);
  if (!(host.max_norm > 0)) return;
  optimizer.max_norm = job.max_grad_norm = host.max_norm;
  optimizer.norm_type = host.norm_type;
}

// Gives the model back to the bindings of its training after a failure. Throws if that fails, too: then the
// training has ended.
void give_back(Bindings& bindings, const std::vector<at::Tensor>& storage, std::string_view failure) {
  try {
    bindings.rebind(storage);
  } catch (const std::exception& e) {
    const auto* const error = dynamic_cast<const Error*>(&e);
    const std::string why = fmt::format("take_over failed ({}), and {} cannot have its model back: {}",
                                        failure, bindings.strategy_name(), text_of(e));
    bindings.strategy().end(why);
    fail(error != nullptr ? error->status() : WEFT_INTERNAL, "{}; start from a checkpoint", why);
  }
}

void require_movable(const Job& job) {
  if (job.model.shared().training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "take_over: {} is not boosted; use boost", job.model.architecture());
}

}  // namespace

void Booster::take_over(Job& job) {
  finish_saving();
  require_movable(job);
  Model::Shared& model = job.model.shared();
  const std::shared_ptr<Training> training_before = model.training;
  Bindings& before = training_before->bindings();
  const Communicator& ranks = world().communicator();
  on_every_rank(ranks, [&] {
    check_quiet(before, open_objective(options().objective, options().objective_options, job.model));
  });
  before.zero_gradients();
  before.merge();

  std::vector<Kept> kept_before, kept_after;
  checkpoint::Pieces held =
      master_pieces(before.publish(WEFT_REASON_TAKE_OVER, &kept_before), checkpoint::add_held);
  std::optional<checkpoint::OptimizerSnapshot> snapshot;
  if (job.optimizer) {
    snapshot = checkpoint::take_snapshot(job.optimizer, ranks);
    append(held, std::move(snapshot->pieces));
  }
  if (job.average) checkpoint::add_averages(*job.average, held);
  const std::vector<checkpoint::TensorHolders> all_holders = checkpoint::gather_holders(ranks, held);
  std::optional<checkpoint::SavedOptimizer> states;
  if (job.optimizer)
    states.emplace(snapshot->description, states_in(all_holders, before), job.optimizer, "take_over");

  const Job job_before = job;
  const auto optimizer_before = job.optimizer ? std::optional(job.optimizer.shared()) : std::nullopt;
  const std::vector<at::Tensor> storage = before.unbind();
  std::shared_ptr<Training> training_after;
  try {
    if (job.data) {
      job.data = job_before.data.for_rank(data_rank(), data_size());
      job.data.seek(job_before.data.position());
    }
    const Shared::Made made = shared_->make_training(job, std::make_shared<NoValues>());
    training_after = made.training;
    Bindings& after = training_after->bindings();
    const std::vector<Shard> shards = after.publish(WEFT_REASON_TAKE_OVER, &kept_after);
    checkpoint::Pieces wanted = master_pieces(shards, checkpoint::add_wanted);
    if (states) append(wanted, states->wanted_states(shards));
    move_average(job, after, wanted);
    fill(ranks, all_holders, held, wanted);
    if (before.strategy_name() == after.strategy_name()) move_kept(ranks, kept_before, kept_after);
    after.values_written(WEFT_REASON_TAKE_OVER, shards);
    training_after->set_synchronise(training_before->synchronise());
    if (states) move_optimizer(job, training_after, made.host, *states);
    if (after.mesh().layout() != before.mesh().layout()) reseed_generators(world(), after.mesh());
    after.check_replicas(Bindings::Origin::kTakenOver);
  } catch (...) {  // a data set of the caller's may throw anything
    const std::string failure = text_of_current_exception();
    job = job_before;
    if (optimizer_before) job.optimizer.shared() = *optimizer_before;
    if (training_after) training_after->bindings().unbind();
    give_back(before, storage, failure);
    throw;
  }
  model.training = training_after;
}

}  // namespace weft
