#include "train/training/blocks_model.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "streams/region.hpp"

namespace weft::test {

namespace {

// Sums over ranks that each compute a different part of the loss: forward and backward are one all-reduce
// each.
class SumOverRanks : public torch::autograd::Function<SumOverRanks> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& part,
                            const Communicator* ranks) {
    context->saved_data["ranks"] = reinterpret_cast<int64_t>(ranks);
    at::Tensor sum = part.clone();
    ranks->all_reduce(sum).wait();
    return sum;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto* const ranks = reinterpret_cast<const Communicator*>(context->saved_data["ranks"].toInt());
    at::Tensor sum = gradients[0].contiguous().clone();
    ranks->all_reduce(sum).wait();
    return {sum, at::Tensor()};
  }
};

// Returns the indices in the whole dimension that the runs have.
at::Tensor indices_of(const std::vector<Run>& runs) {
  std::vector<at::Tensor> indices = {at::empty({0}, at::kLong)};
  for (const Run& run : runs) indices.push_back(at::arange(run.begin, run.end(), at::kLong));
  return at::cat(indices);
}

}  // namespace

struct BlocksModel::Weights : torch::nn::Module {
  Weights(int64_t rows, int64_t columns, bool biased) {
    const auto options = at::TensorOptions().dtype(at::kDouble).device(at::kMeta);
    weight = register_parameter("weight", at::empty({rows, columns}, options));
    if (biased) bias = register_parameter("bias", at::empty({columns}, options));
  }
  at::Tensor weight, bias;
};

class BlocksModel::BlockUnit final : public nn::Unit {
 public:
  explicit BlockUnit(BlocksModel& model) : Unit("block"), model_(model) { uses(*model.block_); }
  void forward(State& state) override {
    const Weights& own = *model_.block_;
    const at::Tensor x = state.at("x");
    at::Tensor y;
    if (!model_.tensor_ || model_.tensor_.size() == 1) {
      y = x.matmul(own.weight);
    } else {
      const at::Tensor rows = indices_of(model_.cut_.dims[0]), columns = indices_of(model_.cut_.dims[1]);
      const at::Tensor part = parallel::enter(x, model_.tensor_).index_select(1, rows).matmul(own.weight);
      y = parallel::leave(at::zeros({x.size(0), kHidden}, x.options()).index_add(1, columns, part),
                          model_.tensor_);
    }
    state.set("x", y + own.bias);
  }

 private:
  BlocksModel& model_;
};

class BlocksModel::ExpertUnit final : public nn::Unit {
 public:
  explicit ExpertUnit(BlocksModel& model) : Unit("experts"), model_(model) {
    for (const auto& expert : model.experts_) uses(*expert);
  }
  // Every rank computes its experts for the samples of all ranks that have other experts.
  void forward(State& state) override {
    const at::Tensor x = state.at("x"), route = state.at("route");
    const int64_t own = x.size(0);
    const bool alone = !model_.same_experts_ || model_.same_experts_.size() == 1;
    const int64_t before = alone ? 0 : own * model_.same_experts_.rank();
    const int64_t all = alone ? own : own * model_.same_experts_.size();
    const auto everyones = [&](const at::Tensor& rows) {
      if (alone) return rows;
      at::Tensor placed = at::constant_pad_nd(rows.view({own, -1}), {0, 0, before, all - before - own});
      return SumOverRanks::apply(placed, &model_.same_experts_);
    };
    const at::Tensor gathered = everyones(x), routes = everyones(route).view({all});
    const at::Tensor rows = splits_columns() ? parallel::enter(gathered, model_.tensor_) : gathered;
    at::Tensor y = at::zeros({all, kOutputs}, x.options()) + 0 * rows.sum();
    for (int64_t e = 0; e < kExperts; ++e) {
      const at::Tensor& weight = model_.experts_[static_cast<size_t>(e)]->weight;
      if (weight.numel() == 0) continue;  // it lives on another rank
      const at::Tensor part = rows.matmul(weight) * routes.eq(e).unsqueeze(1).to(x.scalar_type());
      y = splits_columns()
              ? y.index_add(1, indices_of(model_.expert_cuts_[static_cast<size_t>(e)].dims[1]), part)
              : y + part;
    }
    if (splits_columns()) y = parallel::leave(y, model_.tensor_);
    state.set("y", alone ? y : SumOverRanks::apply(y, &model_.same_experts_).narrow(0, before, own));
    state.erase("x");
  }

 private:
  bool splits_columns() const { return !model_.expert_cuts_.empty(); }

  BlocksModel& model_;
};

BlocksModel::BlocksModel() : Model(Config::parse("{}", "blocks")), cut_(Cut::whole({kInputs, kHidden})) {
  block_ = register_module("block", std::make_shared<Weights>(kInputs, kHidden, true));
  const auto list = register_module("experts", std::make_shared<torch::nn::Module>());
  for (int64_t e = 0; e < kExperts; ++e) {
    experts_.push_back(std::make_shared<Weights>(kHidden, kOutputs, false));
    list->register_module(std::to_string(e), experts_.back());
  }
  units_.push_back(std::make_unique<BlockUnit>(*this));
  units_.push_back(std::make_unique<ExpertUnit>(*this));
}

std::vector<nn::Unit*> BlocksModel::units() {
  std::vector<nn::Unit*> units;
  for (const auto& unit : units_) units.push_back(unit.get());
  return units;
}

State BlocksModel::input(const Batch& batch) const {
  return {{"x", batch.at("x")}, {"route", batch.at("route")}};
}

std::vector<nn::LossTerm> BlocksModel::loss(const State& last, const Batch& batch) const {
  return {{"loss", 1, (last.at("y") - batch.at("target")).pow(2).sum()}};
}

std::vector<nn::LossCount> BlocksModel::counts(const Batch& batch) const {
  return {{"loss", static_cast<double>(batch.at("target").size(0))}};
}

std::vector<nn::FieldShape> BlocksModel::boundary(const Batch& batch, size_t index) const {
  const int64_t samples = batch.at("x").size(0);
  return {{"x", {samples, index == 0 ? kInputs : kHidden}, at::kDouble, index > 0},
          {"route", {samples}, at::kLong, false}};
}

void BlocksModel::divide(Bindings& bindings, const ExpertLayout& experts) {
  cut_ = bindings.find_param("block.weight")->cut;
  tensor_ = bindings.comm(Mesh::tensor())->communicator;
  same_experts_ = bindings.comm(experts.axes)->communicator;
  if (!experts.splits_columns) return;
  for (int64_t e = 0; e < kExperts; ++e)
    expert_cuts_.push_back(bindings.find_param("experts." + std::to_string(e) + ".weight")->cut);
}

namespace {

// Adds an entry whose operation leaves the layer alone, because the sizes of the plan say one tensor-parallel
// rank: these layers divide themselves.
void add(plan::Plan& plan, const std::string& path, std::vector<plan::PlannedParameter> params) {
  plan.replacements.push_back({path, "weft.parallel_input/1", {}, {{path, "Blocks", std::move(params)}}});
}

plan::PlannedParameter planned_block(const Mesh& mesh) {
  using Model = BlocksModel;
  plan::PlannedParameter weight{.name = "weight", .shape = {Model::kInputs, Model::kHidden}};
  const bool square = mesh.size(axis::kTensorRow) > 1;
  weight.partition_axes = square ? joined(1u << axis::kTensorRow, 1u << axis::kTensorColumn) : Mesh::tensor();
  std::vector<std::vector<Run>> rows = {{{0, Model::kInputs}}};
  if (square) rows = {{{0, 3}, {6, 2}}, {{3, 3}}};
  for (const std::vector<Run>& own : rows)
    for (const std::vector<Run>& columns : {std::vector<Run>{{0, 5}}, {{5, 7}}}) {
      weight.cuts.push_back(Cut::along(weight.shape, 1, columns));
      weight.cuts.back().dims[0] = own;
    }
  return weight;
}

}  // namespace

plan::Plan blocks_plan(const Mesh& mesh, const ExpertLayout& experts) {
  plan::Plan plan;
  plan.architecture = "BlocksModel";
  if (mesh.splits(Mesh::tensor())) add(plan, "block", {planned_block(mesh)});
  const uint32_t places = mesh.place(experts.axes).size;
  for (int64_t e = 0; places > 1 && e < BlocksModel::kExperts; ++e) {
    plan::PlannedParameter weight{.name = "weight", .shape = {BlocksModel::kHidden, BlocksModel::kOutputs}};
    std::vector<std::vector<Run>> columns = {{{0, BlocksModel::kOutputs}}};
    if (experts.splits_columns) columns = {{{0, 1}, {3, 1}}, {{1, 2}, {4, 2}}};
    weight.partition_axes = experts.splits_columns ? joined(experts.axes, Mesh::tensor()) : experts.axes;
    for (uint32_t place = 0; place < places; ++place)
      for (const std::vector<Run>& own : columns)
        weight.cuts.push_back(e % places == place ? Cut::along(weight.shape, 1, own)
                                                  : Cut::nothing(weight.shape));
    add(plan, "experts." + std::to_string(e), {weight});
  }
  return plan;
}

Batch blocks_batch(int64_t samples, int64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  const auto random = [&](int64_t features) {
    return at::randn({samples, features}, generator, at::kDouble);
  };
  return {{"x", random(BlocksModel::kInputs)},
          {"route", at::randint(BlocksModel::kExperts, {samples}, generator, at::kLong)},
          {"target", random(BlocksModel::kOutputs)}};
}

}  // namespace weft::test
