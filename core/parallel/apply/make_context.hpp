// Makes the context of a forward pass from the shapes of its batch, before any unit runs. Every rank and
// every pipeline stage makes the same one.
#pragma once

#include <memory>
#include <vector>

#include "apply/apply.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/model.hpp"

namespace weft::parallel {

// Returns the context of a micro-batch. `plan` is the plan applied to the model, or null. In training mode
// this draws one number from the default generator, the random seed of the micro-batch. `cache` is that of a
// forward that generates, which must outlive the context, or null.
std::shared_ptr<nn::ForwardContext> make_context(const nn::Model& model, const Batch& batch,
                                                 const AppliedPlan* plan, nn::KeyValueCache* cache = nullptr);

// Returns the sum of this rank's auxiliary losses, each multiplied by its weight and divided by the number of
// positions of its sequence in the micro-batch of `context`; an undefined tensor if there are none. `times`
// is AppliedPlan::times_counted(): each loss is multiplied by it, as the model's loss is.
at::Tensor weighted_mean(const std::vector<nn::AuxiliaryLoss>& losses, const nn::ForwardContext& context,
                         int64_t times);

}  // namespace weft::parallel
