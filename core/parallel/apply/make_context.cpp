#include "apply/make_context.hpp"

#include "weft/error.hpp"

namespace weft::parallel {

namespace {

// Returns the lengths of the sequences. If the model refuses the batch, input() is called for its better
// error.
std::vector<nn::SequenceLength> lengths_of(const nn::Model& model, const Batch& batch) {
  try {
    return model.lengths(batch);
  } catch (const Error&) {
    model.input(batch);
    throw;
  }
}

}  // namespace

std::shared_ptr<nn::ForwardContext> make_context(const nn::Model& model, const Batch& batch,
                                                 const AppliedPlan* plan, nn::KeyValueCache* cache) {
  std::vector<nn::Sequence> sequences;
  for (const nn::SequenceLength& length : lengths_of(model, batch)) {
    std::vector<Run> own = {{0, length.positions}};
    if (plan != nullptr) own = plan->stream(length.name).own(length.positions);
    sequences.push_back({length.name, length.positions, length.rows, std::move(own)});
  }
  std::optional<uint64_t> seed;
  if (model.is_training()) seed = nn::drawn_seed();
  return std::make_shared<nn::ForwardContext>(std::move(sequences), seed, cache);
}

at::Tensor weighted_mean(const std::vector<nn::AuxiliaryLoss>& losses, const nn::ForwardContext& context,
                         int64_t times) {
  at::Tensor mean;
  for (const nn::AuxiliaryLoss& loss : losses) {
    const nn::Sequence& sequence = context.sequence(loss.sequence);
    const at::Tensor term = loss.sum * (loss.weight * static_cast<double>(times) /
                                        static_cast<double>(sequence.rows * sequence.positions));
    mean = mean.defined() ? mean + term : term;
  }
  return mean;
}

}  // namespace weft::parallel
