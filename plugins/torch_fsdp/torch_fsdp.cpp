// torch_fsdp: fully sharded data parallelism, as in PyTorch's FullyShardedDataParallel. Each rank keeps a
// part of every parameter. Units that are wrapped together are all-gathered when they run, and their
// gradients are reduce-scattered during backward.
#include <ATen/core/Tensor.h>

#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "estimate.hpp"
#include "settings.hpp"
#include "weft/kit/flat_shard.hpp"
#include "weft/torch/strategy.hpp"

namespace weft::plugin::torch_fsdp {

namespace {

class FullyShardedDataParallel final : public Strategy {
 public:
  void describe_mesh(const Mesh& mesh) override {
    const uint32_t ranks = mesh.ranks_left();
    settings_ = Settings::read(options, ranks);
    // With NO_SHARD all ranks are on the data axis, too, although each holds the whole model.
    const bool hybrid = settings_.sharding == Sharding::kHybrid;
    mesh.set_size("data", hybrid ? settings_.hybrid_size : ranks);
    mesh.set_size("replica", hybrid ? ranks / settings_.hybrid_size : 1);
  }

  void configure(Training& training) override {
    make_wraps(training.units());
    make_shards(training);
    const Communicator samples = training.samples();
    for (Shard& shard : shards_) {
      const at::ScalarType working = shard.flat.dtype();
      shard.flat.close(layout(training, shard), settings_.reduce_dtype.value_or(working));
      if (settings_.synchronise_states)
        shard.flat.take_values_of(training.communicator(shard.gradient_axes), 0);
    }
    for (at::Tensor buffer : training.buffers()) {
      if (settings_.synchronise_states) samples.broadcast(buffer, 0).wait();
      if (settings_.buffer_dtype && buffer.is_floating_point())
        buffer.set_data(buffer.to(*settings_.buffer_dtype));
    }
  }

  void before_forward(Unit unit, const Pass&) override {
    const size_t wrap = wrap_of_[unit.index()];
    gather(wrap);
    if (settings_.forward_prefetch && unit.index() == wraps_[wrap].first) prefetch(wrap, 1);
  }
  void after_forward(Unit unit, const Pass& pass) override {
    const size_t wrap = wrap_of_[unit.index()];
    if (unit.index() != wraps_[wrap].last) return;
    // Backward is next and begins with the last wrap.
    const bool needed = pass.purpose == WEFT_PASS_TRAINING &&
                        (!settings_.reshard_after_forward() || wrap + 1 == wraps_.size());
    for (Shard* shard : wraps_[wrap].shards)
      if (shard->last == wrap && !needed) shard->flat.release();
  }

  void before_backward(Unit unit, const Pass&) override {
    const size_t wrap = wrap_of_[unit.index()];
    gather(wrap);
    if (settings_.backward == Prefetch::kBefore && unit.index() == wraps_[wrap].last) prefetch(wrap, -1);
  }
  void gradient_ready(Parameter parameter, const Pass&) override {
    shard_of_.at(parameter.get())->flat.collect(parameter);
  }
  void after_backward(Unit unit, const Pass& pass) override {
    const size_t wrap = wrap_of_[unit.index()];
    if (unit.index() != wraps_[wrap].first) return;
    // SHARD_GRAD_OP keeps gathered parameters between backwards under no_sync, too.
    const bool release = pass.synchronise || settings_.reshard_after_forward();
    for (Shard* shard : wraps_[wrap].shards)
      if (shard->first == wrap && release) shard->flat.release();
    if (settings_.backward == Prefetch::kAfter) prefetch(wrap, -1);
    if (!pass.synchronise) return;
    for (Shard* shard : wraps_[wrap].shards)
      if (shard->first == wrap && !shard->flat.frozen()) reduce(*shard);
  }
  void end_backward(const Pass&) override { finish_reductions(); }

  void publish(ShardSink& sink) const override {
    for (const Shard& shard : shards_) shard.flat.publish(sink);
  }
  void values_changed(uint32_t) override {
    for (Shard& shard : shards_) shard.flat.release();
  }
  void zero_gradients() override {
    for (Shard& shard : shards_) shard.flat.zero();
  }

  static void estimate(const Options& options, uint32_t world_size, const weft_job_shape& job,
                       weft_job_estimate& out) {
    torch_fsdp::estimate(options, world_size, job, out);
  }

 private:
  struct Shard {
    kit::FlatShard flat;
    size_t first = 0, last = 0;  // the first and the last wrap that use it
    bool ignored = false;
    uint32_t gradient_axes = 0;  // of its parameters
  };
  // A group of units that are gathered together.
  struct Wrap {
    uint32_t first = 0, last = 0;
    std::vector<Shard*> shards;
  };

  // Shards a buffer over all axes of its gradient_axes but the replica axis.
  kit::FlatShardLayout layout(const Training& training, const Shard& shard) const {
    const uint32_t home = settings_.offloads ? WEFT_POOL_OFFLOAD : WEFT_POOL_ACCELERATOR;
    if (shard.ignored || settings_.sharding == Sharding::kNone)
      return {training.communicator(0), training.communicator(shard.gradient_axes), 0, home};
    const uint32_t replicas = shard.gradient_axes & training.axes("replica");
    const uint32_t divided = shard.gradient_axes & ~replicas;
    return {training.communicator(divided), training.communicator(replicas), divided, home};
  }

  void make_wraps(const std::vector<Unit>& units) {
    std::vector<int64_t> elements;
    for (const Unit& unit : units) {
      elements.push_back(0);
      for (const Parameter& parameter : unit.parameters())
        if (const weft_param_info info = parameter.info(); info.first_unit == unit.index())
          elements.back() += info.count;
    }
    wrap_of_ = wrap_units(elements, settings_);
    wraps_.resize(wrap_of_.back() + 1);
    for (const Unit& unit : units) {
      Wrap& wrap = wraps_[wrap_of_[unit.index()]];
      if (unit.index() == 0 || wrap_of_[unit.index() - 1] != wrap_of_[unit.index()])
        wrap.first = unit.index();
      wrap.last = unit.index();
    }
  }

  // Creates one shard for each set of wraps that use the same parameters, so that a tied weight is gathered
  // for each of its users.
  void make_shards(const Training& training) {
    using Users = std::vector<size_t>;
    std::map<std::tuple<Users, bool, uint32_t, uint32_t, bool>, Shard*> made;
    const std::vector<Unit> units = training.units();
    std::vector<bool> known(settings_.ignored_modules.size());
    for (const Parameter& parameter : training.parameters()) {
      const weft_param_info info = parameter.info();
      Users users;
      for (const Unit& unit : units)
        if (parameter.used_by(unit) && (users.empty() || users.back() != wrap_of_[unit.index()]))
          users.push_back(wrap_of_[unit.index()]);
      const bool ignored = is_ignored(text(info.name), known), frozen = info.frozen != 0;
      const auto key = [&](bool f) {
        return std::tuple(users, ignored, info.gradient_axes, info.working_dtype, f);
      };
      if (!settings_.mixes_frozen && !ignored && made.contains(key(!frozen)))
        refuse(text(info.name) + (frozen ? " is frozen and others" : " is trainable and others") +
               " of its unit are not, but both would be one flat parameter; set use_orig_params=true");
      Shard*& shard = made[key(frozen)];
      if (shard == nullptr) {
        shard = &shards_.emplace_back();
        shard->first = users.front();
        shard->last = users.back();
        shard->ignored = ignored;
        shard->gradient_axes = info.gradient_axes;
        for (const size_t wrap : users) wraps_[wrap].shards.push_back(shard);
      }
      shard->flat.add(parameter);
      shard_of_[parameter.get()] = shard;
    }
    for (size_t i = 0; i < known.size(); ++i)
      if (!known[i])
        refuse("ignored_modules: no module \"" + settings_.ignored_modules[i] + "\" has parameters");
  }

  bool is_ignored(const std::string& name, std::vector<bool>& known) const {
    bool ignored = false;
    for (size_t i = 0; i < known.size(); ++i) {
      if (!name.starts_with(settings_.ignored_modules[i] + ".")) continue;
      known[i] = ignored = true;
    }
    return ignored;
  }

  void gather(size_t wrap) {
    for (Shard* shard : wraps_[wrap].shards) shard->flat.start();
    for (Shard* shard : wraps_[wrap].shards) shard->flat.gather();
  }
  void prefetch(size_t wrap, int direction) {
    for (size_t next = wrap + direction; next < wraps_.size(); next += direction) {
      for (Shard* shard : wraps_[next].shards) shard->flat.start();
      if (settings_.limit_gathers) break;
    }
  }

  // Limits memory: at most one reduce-scatter over the group and one all-reduce over the replicas are in
  // progress.
  void reduce(Shard& shard) {
    if (&shard == scattering_ || &shard == replicating_) finish_reductions();
    if (replicating_ != nullptr) replicating_->flat.finish();
    if (scattering_ != nullptr) scattering_->flat.replicate();
    replicating_ = std::exchange(scattering_, &shard);
    shard.flat.reduce();
  }
  void finish_reductions() {
    if (replicating_ != nullptr) replicating_->flat.finish();
    replicating_ = std::exchange(scattering_, nullptr);
    if (replicating_ == nullptr) return;
    replicating_->flat.replicate();
    replicating_->flat.finish();
    replicating_ = nullptr;
  }

  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(WEFT_INVALID_ARGUMENT, "torch_fsdp: " + what);
  }

  Settings settings_;
  std::deque<Shard> shards_;
  std::vector<Wrap> wraps_;
  std::vector<size_t> wrap_of_;  // by unit
  std::map<weft_param*, Shard*> shard_of_;
  Shard *scattering_ = nullptr, *replicating_ = nullptr;
};

}  // namespace

}  // namespace weft::plugin::torch_fsdp

WEFT_STRATEGY(weft::plugin::torch_fsdp::FullyShardedDataParallel, "torch_fsdp")
