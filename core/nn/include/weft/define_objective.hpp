// A library of objectives, plugin kind "objective", tier `native`, around a function that makes a loss:
//
//   std::shared_ptr<const weft::TrainingLoss> make(const weft::ObjectiveRequest& request);
//   WEFT_OBJECTIVE_LIBRARY(make)
//
// Users choose it by name: weft train --objective NAME --objective-option KEY=VALUE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config.hpp"
#include "weft/define_plugin.h"
#include "weft/nn/model.hpp"
#include "weft/state.hpp"
#include "weft/torch/options.hpp"

namespace weft {

// A loss that takes the place of the model's own, in training and evaluation. Each of its terms is a sum over
// labels, and the host divides it by the number of labels in the global batch. So ranks and micro-batches
// with unlike numbers of labels make the loss and the gradients of one rank with all samples. A loss that
// compares samples with each other, such as a contrastive one, is no such sum: use a Criterion.
//
// The functions are called in the thread that trains, and compute the same for the same arguments. They throw
// weft::Error, INVALID_ARGUMENT with the field for one that is missing or that they cannot use.
class TrainingLoss {
 public:
  virtual ~TrainingLoss() = default;

  // Returns the terms with the number of labels of each: those that terms() sums over, or the sum of their
  // weights. 0 is allowed for a part of the batch. Reads the batch alone, this rank's samples in host memory,
  // before the forward. With pipeline stages every stage calls it. No terms: the batch has no labels.
  virtual std::vector<nn::LossCount> counts(const Batch& batch) const = 0;

  // Returns the sums, scalars in floating point, of the terms of counts(), in their order. `outputs` has what
  // the model returns under its Hugging Face names ("logits": (B, T, vocabulary) of a language model), whole
  // and with the autograd graph; `batch` has all fields of the data, on the device. Must not change either in
  // place. Outputs in half precision are to be converted to fp32 before sums. The sum over no label is 0, not
  // NaN, and depends on the outputs like any other.
  virtual std::vector<nn::LossTerm> terms(const State& outputs, const Batch& batch) const = 0;

  // Returns the names of the fields that the loss reads and the model does not know, "teacher_logits": the
  // model then gets the batch without them.
  virtual std::vector<std::string> fields() const { return {}; }

  // Returns the name of an objective of Weft, "masked_lm", whose labels the command makes from the inputs, as
  // with --objective of that name. Empty: the labels are those without --objective.
  virtual std::string labels() const { return ""; }
};

// What a user wants to train by.
struct ObjectiveRequest {
  std::string name;          // one that plugin.json says the library provides
  plugin::Options options;   // all that plugin.json declares
  std::string architecture;  // the model's class
  Config config;             // the model's configuration
};

// Returns the loss. Throws weft::Error: INVALID_ARGUMENT for a model that it is not for.
using MakeTrainingLoss = std::shared_ptr<const TrainingLoss> (*)(const ObjectiveRequest& request);

// What the library returns under the id of the factory.
struct ObjectiveFactory {
  uint64_t struct_size = sizeof(ObjectiveFactory);
  MakeTrainingLoss make = nullptr;
};
// The id of the factory.
inline constexpr const char* kObjectiveFactory = "weft.factory.objective/1";

}  // namespace weft

// Id and version come from plugin.json through weft_add_plugin().
#define WEFT_OBJECTIVE_LIBRARY(make)                                                            \
  static const void* weft_find_factory(const weft_plugin*, weft_str id) {                       \
    static constexpr weft::ObjectiveFactory kFactory = {sizeof(weft::ObjectiveFactory), make};  \
    return std::string_view(id.data, id.size) == weft::kObjectiveFactory ? &kFactory : nullptr; \
  }                                                                                             \
  WEFT_DEFINE_PLUGIN(WEFT_TIER_NATIVE, WEFT_TORCH_TAG, weft_find_factory)
