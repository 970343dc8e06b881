#include "training/step_graphs.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "base/text.hpp"
#include "device/graph.hpp"
#include "device/tensors.hpp"
#include "trace/trace.hpp"
#include "training/auxiliary.hpp"
#include "training/input_output.hpp"

namespace weft {

namespace {

constexpr size_t kMostKinds = 16;

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const at::Tensor& one, const at::Tensor& other) { return one.is_same(other); });
}

std::string shapes_of(const State& state) {
  std::vector<std::string> fields;
  for (const auto& [name, tensor] : state)
    if (tensor.defined())
      fields.push_back(
          fmt::format("{} {} ({})", name, toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", ")));
  return fmt::format("{}", fmt::join(fields, ", "));
}

State clone_on_device(State state) {
  for (auto& [name, tensor] : state)
    if (tensor.defined()) tensor = device::on_device(tensor).clone();
  return state;
}

// Replaces the fields of a micro-batch by copies on the device while it lives. There the host cannot see
// which labels are -100, so the head computes the logits of all positions, as every replay must.
class FieldsOnDevice {
 public:
  explicit FieldsOnDevice(MicroBatch& micro)
      : micro_(micro),
        input_(std::exchange(*micro.input, clone_on_device(*micro.input))),
        batch_(micro.batch) {
    static_cast<State&>(micro.batch) = clone_on_device(micro.batch);
    micro.context->want_loss_alone(micro.batch);
  }
  ~FieldsOnDevice() {
    micro_.input = input_;
    micro_.batch = batch_;
  }
  FieldsOnDevice(const FieldsOnDevice&) = delete;

 private:
  MicroBatch& micro_;
  const State input_;
  const Batch batch_;
};

bool all_finished(const weft_step& step) {
  return std::all_of(step.micro.begin(), step.micro.end(), [](const MicroBatch& m) { return m.finished; });
}

void copy_fields(const State& from, const State& to) {
  for (const auto& [name, tensor] : from)
    if (tensor.defined()) at::Tensor(to.at(name)).copy_(device::on_device(tensor));
}

}  // namespace

StepGraphs::StepGraphs(Bindings& bindings)
    : bindings_(bindings), stream_(device::Stream::make()), capturer_(device::make_graph_capturer()) {
  stream_.make_current();
}

void StepGraphs::on_stream(const std::function<void()>& action) const {
  device::Event done;
  const auto order = c10::make_scope_exit([&] { done.wait(); });
  const device::OnStream on(stream_);
  const auto mark = c10::make_scope_exit([&] { done.record(); });
  action();
}

std::vector<at::Tensor> StepGraphs::gradients() const {
  std::vector<at::Tensor> result;
  for (const auto& param : bindings_.params()) result.push_back(param->tensor.grad());
  return result;
}

void StepGraphs::set_gradients(const std::vector<at::Tensor>& gradients) const {
  for (const auto& param : bindings_.params())
    if (const at::Tensor& gradient = gradients[param->index]; !param->tensor.grad().is_same(gradient))
      param->tensor.mutable_grad() = gradient;
}

std::string StepGraphs::kind_of(const weft_step& step, uint32_t index) const {
  const MicroBatch& micro = step.micro[index];
  return fmt::format("{}; of which the model reads {}; {} positions in the step", shapes_of(micro.batch),
                     shapes_of(*micro.input), fmt::join(step.positions, " and "));
}

// Forgets all kinds when there are too many. Where none comes back, there is nothing to replay.
void StepGraphs::forget(const std::string& latest) {
  if (captured_.size() < kMostKinds) return;
  if (replays_ < kMostKinds)
    fail(WEFT_FAILED_PRECONDITION,
         "enable_cuda_graph: there have been {} kinds of micro-batches and {} replays; the next kind has {}. "
         "A graph repeats one kind: give batches of one shape (--packing stream), or leave the option out",
         captured_.size(), replays_, latest);
  captured_.clear();
  replays_ = 0;
}

void StepGraphs::run(weft_step& step, uint32_t index, const std::function<void()>& forward_and_backward) {
  const std::vector<at::Tensor> before = gradients();
  const bool first =
      std::none_of(before.begin(), before.end(), [](const at::Tensor& g) { return g.defined(); });
  if (first) base_ = nullptr;
  const bool follows = base_ != nullptr && same(before, base_->gradients);
  MicroBatch& micro = step.micro[index];
  const bool usual = !step.criterion && !step.keeps_outputs && !micro.batch.empty;
  if (!usual || !(first || follows)) return forward_and_backward();
  // Made by the host, also from values of the batch, such as whether there is padding.
  if (!micro.input) micro.input = input_of(bindings_, micro.batch);
  const std::string kind = kind_of(step, index);
  if (first) forget(kind);
  Captured& captured = captured_[{kind, base_}];
  if (!std::exchange(captured.seen, true)) {
    const FieldsOnDevice fields(micro);
    return forward_and_backward();
  }
  step.before_graph(index);
  if (captured.graph == nullptr) capture(captured, step, index, forward_and_backward);
  replay(captured, step, index);
  if (first) base_ = &captured;
  // What ranks have summed is for the strategy to go on with, in begin_backward.
  if (bindings_.mesh().splits(Mesh::samples()) && step.synchronise_last && all_finished(step))
    base_ = nullptr;
}

void StepGraphs::capture(Captured& captured, weft_step& step, uint32_t index,
                         const std::function<void()>& give) {
  MicroBatch& micro = step.micro[index];
  const FieldsOnDevice fields(micro);
  captured.input = *micro.input;
  captured.batch = micro.batch;
  captured.step = {at::empty({static_cast<int64_t>(step.scales.size()) + 1},
                             at::TensorOptions(device::current().place()).dtype(at::kDouble)),
                   {}};
  captured.scales.clear();
  captured.hooks.clear();
  captured.seeds = {};
  const std::vector<at::Tensor> before = gradients();
  const std::vector<bool> touched = bindings_.take_touched();
  step.capture = &captured.step;
  micro.context->capture_seeds(&captured.seeds);
  bindings_.strategy().keep_hooks(&captured.hooks);
  const auto restore = c10::make_scope_exit([&] {
    step.capture = nullptr;
    micro.context->capture_seeds(nullptr);
    bindings_.strategy().keep_hooks(nullptr);
    bindings_.touch(touched);
  });
  std::unique_ptr<device::Graph> graph;
  try {
    graph = device::capture(*capturer_, give);
  } catch (...) {  // nothing of it ran
    set_gradients(before);
    bindings_.take_touched();
    // The device may have another random generator from now on; earlier graphs would go on with the old one.
    captured_.clear();
    base_ = nullptr;
    throw;
  }
  captured.names = step.names;
  captured.gradients = gradients();
  captured.touched = bindings_.take_touched();
  captured.graph = std::move(graph);
}

void StepGraphs::replay(Captured& captured, weft_step& step, uint32_t index) {
  const trace::Span span([&] { return trace::begin("graph", "operation", index); });
  MicroBatch& micro = step.micro[index];
  copy_fields(*micro.input, captured.input);
  copy_fields(micro.batch, captured.batch);
  std::vector<double> scales = step.scales;
  scales.push_back(bindings_.backward_scale());
  if (captured.scales != scales) {
    captured.step.scales.copy_(device::on_device(at::tensor(scales, at::kDouble)));
    captured.scales = std::move(scales);
  }
  const auto launch = [&] {
    captured.seeds.replay(*micro.context->seed(), [&] { captured.graph->replay(); });
    set_gradients(captured.gradients);
    bindings_.touch(captured.touched);
  };
  step.run_graph(index, launch, captured.hooks);
  ++replays_;
  // Copies, because the next micro-batch may replay the same graph.
  for (const auto& [term, value] : captured.step.parts) {
    const size_t own = term < step.scales.size() ? term : auxiliary_term(step, captured.names[term]);
    step.reading.add(value.clone(), &step.parts[own]);
  }
  if (all_finished(step)) step.reading.begin();
}

}  // namespace weft
