#include "training/step_graphs.hpp"

#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "base/text.hpp"
#include "device/graph.hpp"
#include "device/tensors.hpp"
#include "trace/trace.hpp"
#include "training/step.hpp"

namespace weft {

namespace {

constexpr size_t kMostKinds = 16;

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const at::Tensor& one, const at::Tensor& other) { return one.is_same(other); });
}

}  // namespace

StepGraphs::StepGraphs(Bindings& bindings)
    : bindings_(bindings), stream_(device::Stream::make()), recorder_(device::make_graph_recorder()) {
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

std::string StepGraphs::kind_of(const weft_step& step, uint32_t index) const {
  std::string kind;
  for (const auto& [name, tensor] : step.micro[index].batch)
    if (tensor.defined())
      kind +=
          fmt::format("{} {} ({}), ", name, toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
  std::vector<double> labels;
  for (const double scale : step.scales) labels.push_back(1 / scale);
  return fmt::format("{}{} labels, loss scale {}", kind, fmt::join(labels, " and "), bindings_.loss_scale());
}

// Forgets all kinds when there are too many. Some do come one after the other, as the loss scale grows, but
// where none comes back, there is nothing to replay.
void StepGraphs::forget(const std::string& latest) {
  if (recorded_.size() < kMostKinds) return;
  if (replays_ < kMostKinds)
    fail(WEFT_FAILED_PRECONDITION,
         "enable_cuda_graph: there have been {} kinds of micro-batches and {} replays; the next kind has {}. "
         "A graph repeats one kind: give batches of one shape with as many labels each (--packing stream), "
         "or leave the option out",
         recorded_.size(), replays_, latest);
  recorded_.clear();
  replays_ = 0;
}

void StepGraphs::run(weft_step& step, uint32_t index, const std::function<void()>& forward_and_backward) {
  const std::vector<at::Tensor> before = gradients();
  const bool first =
      std::none_of(before.begin(), before.end(), [](const at::Tensor& g) { return g.defined(); });
  const std::string kind = kind_of(step, index);
  if (first) {
    base_ = nullptr;
    forget(kind);
  }
  const bool follows = base_ != nullptr && same(before, base_->gradients);
  if (step.criterion || step.keeps_outputs || !(first || follows)) return forward_and_backward();
  Recorded& recorded = recorded_[{kind, base_}];
  if (!std::exchange(recorded.seen, true)) return forward_and_backward();
  if (recorded.graph == nullptr) record(recorded, step, index, forward_and_backward);
  replay(recorded, step, index);
  if (first) base_ = &recorded;
}

void StepGraphs::record(Recorded& recorded, weft_step& step, uint32_t index,
                        const std::function<void()>& give) {
  MicroBatch& micro = step.micro[index];
  Batch inputs = micro.batch;
  for (const auto& [name, tensor] : micro.batch)
    if (tensor.defined()) inputs.set(name, device::on_device(tensor).clone());
  const std::vector<bool> touched = bindings_.take_touched();
  const size_t terms = step.names.size();
  std::vector<std::pair<size_t, at::Tensor>> loss;
  step.recorded = &loss;
  const Batch batch = std::exchange(micro.batch, inputs);
  const auto restore = c10::make_scope_exit([&] {
    step.recorded = nullptr;
    micro.batch = batch;
  });
  micro.context->want_loss_alone(inputs);
  std::unique_ptr<device::Graph> graph = device::record(*recorder_, give);
  if (step.names.size() != terms)
    fail(WEFT_UNIMPLEMENTED,
         "enable_cuda_graph: layers of {} add the auxiliary loss \"{}\", which graphs do not count; leave "
         "the option out",
         bindings_.model().architecture(), step.names.back());
  recorded.inputs = std::move(inputs);
  recorded.loss = std::move(loss);
  recorded.gradients = gradients();
  recorded.touched = bindings_.take_touched();
  recorded.graph = std::move(graph);
  bindings_.touch(touched);
}

void StepGraphs::replay(const Recorded& recorded, weft_step& step, uint32_t index) {
  const trace::Span span([&] { return trace::begin("graph", "operation", index); });
  MicroBatch& micro = step.micro[index];
  for (const auto& [name, tensor] : micro.batch)
    if (tensor.defined()) at::Tensor(recorded.inputs.at(name)).copy_(device::on_device(tensor));
  bindings_.strategy().disturb();  // gradients change
  recorded.graph->replay();
  ++replays_;
  for (const auto& param : bindings_.params()) {
    const at::Tensor& gradient = recorded.gradients[param->index];
    if (!param->tensor.grad().is_same(gradient)) param->tensor.mutable_grad() = gradient;
  }
  bindings_.touch(recorded.touched);
  // Copies, because the next micro-batch may replay the same graph.
  for (const auto& [term, value] : recorded.loss) step.reading.add(value.clone(), &step.parts[term]);
  micro.finished = micro.backward_begun = true;
  if (std::all_of(step.micro.begin(), step.micro.end(), [](const MicroBatch& m) { return m.finished; }))
    step.reading.begin();
}

}  // namespace weft
