#include "training/auxiliary.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>

#include "apply/apply.hpp"

namespace weft {

namespace {

// Returns the number of positions of a sequence that this rank counts. Ranks that share a sequence have the
// same samples, so each counts its share of them.
double positions_of(const Bindings& bindings, const nn::Sequence& sequence) {
  return static_cast<double>(sequence.rows * sequence.positions) / bindings.mesh().sequence_size();
}

bool divides_tensor_positions(const Bindings& bindings) {
  return bindings.plan() != nullptr && bindings.plan()->divides_positions_of_tensor_ranks();
}

size_t place_of(const nn::ForwardContext& context, const std::string& name) {
  return static_cast<size_t>(&context.sequence(name) - context.sequences().data());
}

// Returns the factor that makes a sum over positions a mean over the global batch. With a criterion it makes
// a mean over each micro-batch, averaged over micro-batches and ranks like the criterion itself.
double scale_of(const weft_step& step, const MicroBatch& micro, const std::string& sequence) {
  const size_t place = place_of(*micro.context, sequence);
  if (!step.criterion) return 1 / step.positions[place];
  return micro.share / positions_of(step.bindings(), micro.context->sequences()[place]);
}

}  // namespace

size_t auxiliary_term(weft_step& step, const std::string& name) {
  const auto own = step.names.begin() + static_cast<std::ptrdiff_t>(step.scales.size());
  const auto term = static_cast<size_t>(std::find(own, step.names.end(), name) - step.names.begin());
  if (term == step.names.size()) {
    step.names.push_back(name);
    step.parts.push_back(0);
  }
  return term;
}

void append_positions(const weft_step& step, std::vector<double>& counts) {
  const size_t sequences = step.micro.empty() ? 0 : step.micro.front().context->sequences().size();
  for (size_t s = 0; s < sequences; ++s) {
    double positions = 0;
    for (const MicroBatch& micro : step.micro)
      if (!micro.batch.empty) positions += positions_of(step.bindings(), micro.context->sequences()[s]);
    counts.push_back(positions);
  }
}

void take_positions(weft_step& step, std::vector<double>& counts) {
  const size_t sequences = step.micro.empty() ? 0 : step.micro.front().context->sequences().size();
  step.positions.assign(counts.end() - static_cast<std::ptrdiff_t>(sequences), counts.end());
  counts.resize(counts.size() - sequences);
}

at::Tensor add_auxiliary(weft_step& step, uint32_t micro, const std::vector<nn::AuxiliaryLoss>& losses) {
  const MicroBatch& of = step.micro[micro];
  at::Tensor total;
  for (const nn::AuxiliaryLoss& loss : losses) {
    const double scale = of.batch.empty ? 0.0 : loss.weight * scale_of(step, of, loss.sequence);
    const at::Tensor scaled = loss.sum * scale;
    step.add_part(auxiliary_term(step, loss.name), scaled);
    if (scaled.requires_grad()) total = total.defined() ? total + scaled : scaled;
  }
  return total.defined() ? step.with_loss_scale(total) : total;
}

bool reports_auxiliary(const Bindings& bindings) {
  return divides_tensor_positions(bindings) || bindings.mesh().speaks_for(Fact::kLayers);
}

void append_terms(Bindings& bindings, const nn::ForwardContext& context, bool empty,
                  const std::vector<nn::AuxiliaryLoss>& losses, Training::Forward& forward) {
  const size_t of_model = forward.terms.size();
  for (const nn::AuxiliaryLoss& loss : losses) {
    const double positions = positions_of(bindings, context.sequence(loss.sequence));
    at::Tensor sum = (loss.sum * (empty ? 0.0 : loss.weight)).to(at::kDouble);
    if (divides_tensor_positions(bindings))
      bindings.comm(Mesh::tensor())->communicator.all_reduce(sum, ReduceOp::kSum, true).wait();
    size_t t = of_model;
    while (t < forward.terms.size() && forward.terms[t].name != loss.name) ++t;
    if (t == forward.terms.size()) {
      forward.terms.push_back({loss.name, 1, sum});
      forward.counts.push_back({loss.name, positions});
    } else {
      forward.terms[t].sum = forward.terms[t].sum + sum * (forward.counts[t].count / positions);
    }
  }
}

}  // namespace weft
