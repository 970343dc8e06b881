// A job moves from one strategy to another within the process.
#include "base/text.hpp"
#include "booster/booster_state.hpp"
#include "booster/model_state.hpp"
#include "checkpoint/optimizer_files.hpp"
#include "comm/agreement.hpp"
#include "training/generators.hpp"
#include "training/part.hpp"

#include <c10/util/ScopeExit.h>

namespace weft {

namespace {

// The values come afterwards, from the ranks that have them.
class NoValues final : public ParameterSource {
 public:
  bool read(const std::string&, const Box&, const at::Tensor& destination) override {
    destination.zero_();
    return true;
  }
};

// The model's tensors without the training they are bound to, which keeps its storage. Gives them back unless
// another training is to have them for good.
class UnboundModel {
 public:
  explicit UnboundModel(Bindings& training) : training_(training) {
    for (const auto& param : training.params()) {
      storage_.push_back(param->bound ? param->tensor.variable_data() : at::Tensor());
      if (param->bound) unbind_storage(*param);
    }
    training.lift_plan();
  }
  ~UnboundModel() {
    if (!gives_back_) return;
    training_.put_plan_back();
    for (const auto& param : training_.params())
      if (const at::Tensor& storage = storage_[param->index]; storage.defined())
        training_.bind(*param, storage);
  }
  UnboundModel(const UnboundModel&) = delete;
  void keep_unbound() { gives_back_ = false; }

 private:
  Bindings& training_;
  std::vector<at::Tensor> storage_;
  bool gives_back_ = true;
};

void check_quiet(const Bindings& training) {
  for (const auto& param : training.params())
    if (param->touched)
      fail(WEFT_FAILED_PRECONDITION,
           "take_over: {} has a gradient that no step has used; call step and zero_grad first", param->name);
}

// Master values under the parameters' names, in their own dtype.
template <class Add>
checkpoint::Pieces master_pieces(const std::vector<Shard>& shards, const Add& add) {
  checkpoint::Pieces pieces;
  for (const Shard& shard : shards) {
    const weft_param& param = *shard.param;
    add(shard, {param.name, shard.value.scalar_type(), param.shape}, param.index, shard.value, pieces);
  }
  return pieces;
}

void append(checkpoint::Pieces& pieces, checkpoint::Pieces more) {
  std::move(more.begin(), more.end(), std::back_inserter(pieces));
}

// Fills `wanted` on every rank from what all hold.
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

}  // namespace

void Booster::take_over(Job& job) {
  finish_saving();
  Model::Shared& model = job.model.shared();
  if (model.training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "take_over: {} is not boosted; use boost", job.model.architecture());
  const std::shared_ptr<Training> before = model.training;
  const Communicator& ranks = world().communicator();
  on_every_rank(ranks, [&] { check_quiet(*before); });
  before->zero_gradients();

  checkpoint::Pieces held = master_pieces(before->publish(), checkpoint::add_held);
  std::optional<checkpoint::OptimizerSnapshot> snapshot;
  if (job.optimizer) {
    snapshot = checkpoint::take_snapshot(job.optimizer, ranks);
    append(held, std::move(snapshot->pieces));
  }
  const std::vector<checkpoint::TensorHolders> all_holders = checkpoint::gather_holders(ranks, held);
  std::optional<checkpoint::SavedOptimizer> states;
  if (job.optimizer) {
    std::vector<checkpoint::Entry> entries;
    for (const checkpoint::TensorHolders& known : all_holders)
      if (before->find_param(known.tensor.name) == nullptr) entries.push_back(known.tensor);
    states.emplace(snapshot->description, entries, job.optimizer, "take_over");
  }

  const data::Loader loader = job.data;
  if (loader) {
    job.data = loader.for_rank(data_rank(), data_size());
    job.data.seek(loader.position());
  }
  auto give_back_data = c10::make_scope_exit([&] { job.data = loader; });
  UnboundModel unbound(*before);
  const auto [after, host] = shared_->make_training(job, std::make_shared<NoValues>());
  const std::vector<Shard> shards = after->publish();
  checkpoint::Pieces wanted = master_pieces(shards, checkpoint::add_wanted);
  if (states) append(wanted, states->wanted_states(shards));
  fill(ranks, all_holders, held, wanted);
  after->values_changed();
  after->set_synchronise(before->synchronise());
  if (job.optimizer) {
    optim::Optimizer::Shared& optimizer = job.optimizer.shared();
    optimizer.training = after;
    optimizer.backward = [after = after.get()](const at::Tensor& loss) { after->backward(loss); };
    optimizer.scaler.reset();
    if (host.scaler) optimizer.scaler.emplace(*host.scaler);
    states->apply(job.optimizer);
    if (host.max_norm > 0) {
      optimizer.max_norm = job.max_grad_norm = host.max_norm;
      optimizer.norm_type = host.norm_type;
    }
  }
  if (after->mesh().layout() != before->mesh().layout()) reseed_generators(world(), after->mesh());
  model.training = after;
  unbound.keep_unbound();
  give_back_data.release();
}

}  // namespace weft
