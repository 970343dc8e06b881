#include "training/pipeline.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "host/launch/activity.hpp"
#include "trace/trace.hpp"
#include "training/passed_fields.hpp"
#include "training/stages.hpp"

namespace weft {

namespace {

using pipeline::Kind;
using pipeline::Operation;
using pipeline::Transfer;

Transfer::Content content_of(Kind kind) {
  return kind == Kind::forward ? Transfer::Content::state : Transfer::Content::gradients;
}

// Returns a tensor from which backward begins as from `tensor`, without its memory. The engine checks shapes
// against the node that made the tensor.
at::Tensor without_memory(const at::Tensor& tensor) {
  if (tensor.is_leaf()) return tensor;
  const at::Tensor root = at::empty({0}, tensor.options());
  torch::autograd::impl::set_gradient_edge(root, torch::autograd::impl::gradient_edge(tensor));
  return root;
}

}  // namespace

// One step.
class Pipeline::Run {
 public:
  Run(Pipeline& pipeline, const StageProgram& program, weft_step& step)
      : pipeline_(pipeline),
        program_(program),
        schedule_(program.schedule),
        step_(step),
        inputs_(step.micro.size()),
        flights_(step.micro.size() * schedule_.chunks),
        transport_(
            pipeline.stages_, program, [this](const Transfer& transfer) -> const auto& {
              const Boundary& boundary = entering(transfer.micro_batch, transfer.boundary + 1);
              return transfer.content == Transfer::Content::state ? boundary.made : boundary.differentiable;
            }) {}

  void operator()() {
    const std::vector<Operation>& operations = program_.operations();
    for (size_t place = 0; place < operations.size(); ++place) {
      expect(operations, place);
      const Operation& operation = operations[place];
      const trace::Span span([&] {
        return trace::begin(name_of(operation, schedule_.chunks), "operation", operation.micro_batch);
      });
      const ActivityDetail detail("in " + describe(operation, schedule_.chunks));
      run(operation);
      if (!step_.training) limit_what_is_sent();
    }
    const ActivityDetail detail("after the schedule");
    transport_.finish();
  }

 private:
  // What a micro-batch has from its batch alone.
  struct Input {
    State state;  // until the last forward on this rank has read it
    std::shared_ptr<const Boundaries> boundaries;
  };
  // A micro-batch in one chunk, from its forward to its backward.
  struct Flight {
    State entered;                        // the differentiable fields, which get gradients
    State left;                           // those that went to the next virtual stage, as roots of backward
    std::shared_ptr<ForwardRecord> rest;  // of a split backward, between its halves
  };

  Input& input(uint32_t micro) {
    Input& input = inputs_[micro];
    if (input.boundaries == nullptr) {
      input.state = step_.input(micro);
      step_.micro[micro].input.reset();
      input.boundaries = pipeline_.boundaries(step_.micro[micro].batch, input.state);
    }
    return input;
  }
  const Boundary& entering(uint32_t micro, uint32_t virtual_stage) {
    return (*input(micro).boundaries)[virtual_stage];
  }
  Flight& flight(const Operation& operation) {
    return flights_[operation.micro_batch * schedule_.chunks + operation.chunk];
  }

  void expect(const std::vector<Operation>& operations, size_t place);
  void limit_what_is_sent();
  void run(const Operation& operation);
  void forward(const Operation& operation);
  void backward(const Operation& operation);
  State enter(const Operation& operation, uint32_t virtual_stage);
  State from_batch(uint32_t micro, uint32_t virtual_stage);
  State leave(const Operation& operation, uint32_t virtual_stage, const State& left, const State& given);
  State gradients_of_entered(const Operation& operation, uint32_t virtual_stage);
  // Return what an operation receives, and pass on what it sends, to another stage or within this one.
  State received(const Operation& operation, uint32_t boundary);
  void pass_on(const Operation& operation, uint32_t boundary, State tensors);

  Pipeline& pipeline_;
  const StageProgram& program_;
  const pipeline::Schedule& schedule_;
  weft_step& step_;
  std::vector<Input> inputs_;                      // by micro-batch
  std::vector<Flight> flights_;                    // by micro-batch and chunk
  std::vector<std::pair<Transfer, State>> turns_;  // between two chunks of this rank
  StageTransport transport_;
};

// Begins to receive what the operation at `place` needs and, so that it arrives meanwhile, the next one that
// can need anything.
void Pipeline::Run::expect(const std::vector<Operation>& operations, size_t place) {
  size_t next = place + 1;
  while (next < operations.size() && operations[next].kind == Kind::weight_gradient) ++next;
  for (const size_t due : {place, next})
    if (due < operations.size())
      if (const auto transfer = receive_of(schedule_, program_.stage, operations[due]))
        transport_.expect(*transfer);
}

// Without backwards and with one chunk on each stage, nothing comes back that shows what has arrived, so a
// stage would keep everything that it sends, and could be far ahead of the next one. No stage waits for a
// later one otherwise, so each may wait for the next one to begin to receive.
void Pipeline::Run::limit_what_is_sent() {
  constexpr size_t kAhead = 2;  // the next stage receives one while it computes with the other
  if (schedule_.chunks == 1) transport_.wait_for_all_but(kAhead);
}

void Pipeline::Run::run(const Operation& operation) {
  if (operation.kind == Kind::forward) return forward(operation);
  if (operation.kind != Kind::weight_gradient) return backward(operation);
  step_.finish_backward(operation.micro_batch, *flight(operation).rest);
  flight(operation) = Flight();
}

void Pipeline::Run::forward(const Operation& operation) {
  const uint32_t micro = operation.micro_batch;
  const uint32_t own = schedule_.virtual_stage(program_.stage, operation.chunk);
  const pipeline::StageDivision& division = pipeline_.bindings_.stages();
  const bool is_last = own + 1 == schedule_.virtual_stages();
  weft_state state{own == 0 ? input(micro).state : enter(operation, own)};
  const State given = is_last ? State() : from_batch(micro, own + 1);
  if (operation.chunk + 1 == schedule_.chunks) input(micro).state = State();
  for (uint32_t unit = division.begin(own); unit < division.end(own); ++unit)
    step_.forward(micro, *pipeline_.bindings_.units()[unit], state);
  if (is_last)
    step_.finish(micro, state.state);
  else
    pass_on(operation, own, leave(operation, own, state.state, given));
}

// Runs a backward, or the first half of one.
void Pipeline::Run::backward(const Operation& operation) {
  const uint32_t micro = operation.micro_batch;
  const uint32_t own = schedule_.virtual_stage(program_.stage, operation.chunk);
  const auto send = [&] {
    if (own > 0) pass_on(operation, own - 1, gradients_of_entered(operation, own));
  };
  std::shared_ptr<ForwardRecord> rest;
  if (own + 1 == schedule_.virtual_stages()) {
    rest = step_.backward(micro, nullptr, nullptr, send);
  } else {
    const State gradients = received(operation, own);
    rest = step_.backward(micro, &flight(operation).left, &gradients, send);
  }
  flight(operation) = Flight();
  flight(operation).rest = std::move(rest);
}

// Returns the State with which a virtual stage after the first begins.
State Pipeline::Run::enter(const Operation& operation, uint32_t virtual_stage) {
  const State arrived = received(operation, virtual_stage - 1);
  const State& own = input(operation.micro_batch).state;
  State state;
  for (const nn::FieldShape& field : entering(operation.micro_batch, virtual_stage).fields) {
    at::Tensor tensor = (field.from_input ? own : arrived).at(field.name);
    // What comes from the batch stays as it is: other micro-batches and the caller have the same tensor.
    if (field.differentiable && !field.from_input && step_.training) {
      tensor.set_requires_grad(true);
      flight(operation).entered.set(field.name, tensor);
    }
    state.set(field.name, std::move(tensor));
  }
  return state;
}

// Returns the fields of the batch with which a virtual stage begins, and which it makes itself.
State Pipeline::Run::from_batch(uint32_t micro, uint32_t virtual_stage) {
  State fields;
  for (const nn::FieldShape& field : entering(micro, virtual_stage).fields)
    if (field.from_input) fields.set(field.name, input(micro).state.at(field.name));
  return fields;
}

// Returns the fields of `left` that the next virtual stage needs, in the dtype that it expects: autocast may
// have changed it. Keeps the roots of their backward. `given` are those that come from the batch.
State Pipeline::Run::leave(const Operation& operation, uint32_t virtual_stage, const State& left,
                           const State& given) {
  const Boundary& boundary = entering(operation.micro_batch, virtual_stage + 1);
  const Bindings& bindings = pipeline_.bindings_;
  const uint32_t last = bindings.stages().end(virtual_stage) - 1;
  check_left_fields(bindings, last, left, given, boundary.fields);
  State tensors;
  for (const nn::FieldShape& field : boundary.made) {
    const at::Tensor tensor = left.at(field.name).to(field.dtype);
    if (field.differentiable && tensor.requires_grad())
      flight(operation).left.set(field.name, without_memory(tensor));
    tensors.set(field.name, tensor.detach().contiguous());
  }
  return tensors;
}

// Returns the gradients that the previous virtual stage waits for: zero where no unit used the field.
State Pipeline::Run::gradients_of_entered(const Operation& operation, uint32_t virtual_stage) {
  const State& entered = flight(operation).entered;
  State gradients;
  for (const nn::FieldShape& field : entering(operation.micro_batch, virtual_stage).differentiable) {
    const at::Tensor& gradient = entered.at(field.name).grad();
    gradients.set(field.name, gradient.defined()
                                  ? gradient.contiguous()
                                  : at::zeros(field.shape, device::current().options(field.dtype)));
  }
  return gradients;
}

State Pipeline::Run::received(const Operation& operation, uint32_t boundary) {
  if (const auto transfer = receive_of(schedule_, program_.stage, operation))
    return transport_.receive(*transfer);
  const Transfer turn{content_of(operation.kind), operation.micro_batch, boundary, program_.stage,
                      program_.stage};
  const auto found =
      std::find_if(turns_.begin(), turns_.end(), [&](const auto& kept) { return kept.first == turn; });
  TORCH_INTERNAL_ASSERT(found != turns_.end());
  State tensors = std::move(found->second);
  turns_.erase(found);
  return tensors;
}

void Pipeline::Run::pass_on(const Operation& operation, uint32_t boundary, State tensors) {
  if (const auto transfer = send_of(schedule_, program_.stage, operation))
    return transport_.send(*transfer, std::move(tensors));
  turns_.emplace_back(
      Transfer{content_of(operation.kind), operation.micro_batch, boundary, program_.stage, program_.stage},
      std::move(tensors));
}

Pipeline::Pipeline(Bindings& bindings)
    : bindings_(bindings), stages_(bindings.comm(Mesh::stages())->communicator) {}

void Pipeline::run(weft_step& step) {
  const StageProgram& own = program(step);
  step.splits_backward = own.splits_backward();
  Run run(*this, own, step);
  run();
}

const StageProgram& Pipeline::program(const weft_step& step) {
  const auto key = std::make_pair(step.micro.size(), step.training);
  const auto found = programs_.find(key);
  if (found != programs_.end()) return found->second;
  pipeline::Schedule schedule =
      stage_schedule(bindings_.options().host.pipeline, static_cast<int64_t>(step.micro.size()));
  if (!step.training) schedule = pipeline::forward_only(schedule);
  return programs_.try_emplace(key, std::move(schedule), static_cast<uint32_t>(stages_.rank())).first->second;
}

}  // namespace weft
