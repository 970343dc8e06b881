// The context of a forward, from the shapes of its batch: known before any unit has run, on every rank and
// stage.
#pragma once

#include <memory>
#include <vector>

#include "parallel/apply.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/model.hpp"

namespace weft::parallel {

// `plan`: the one applied to the model, null if there is none. Where the model is in training mode, one
// number is drawn from the default generator: the seed of the micro-batch.
std::shared_ptr<nn::ForwardContext> make_context(const nn::Model& model, const Batch& batch,
                                                 const AppliedPlan* plan);

// Adds up `losses` of this rank, each weighted and divided by the positions of its sequence in the batch of
// `context`; undefined if there are none. Where ranks have positions of the same samples, every rank's part
// counts `times`, as their losses do.
at::Tensor weighted_mean(const std::vector<nn::AuxiliaryLoss>& losses, const nn::ForwardContext& context,
                         int64_t times);

}  // namespace weft::parallel
