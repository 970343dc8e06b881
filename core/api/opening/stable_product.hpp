// The product of a linear layer as an operation of tier stable computes it, in a node of the autograd graph.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/addition.hpp"
#include "weft/nn/site.hpp"
#include "weft/operation.h"

namespace weft {

// The attributes of an entry of a plan as C functions take them.
class AttributeValues {
 public:
  explicit AttributeValues(std::vector<plan::Attribute> attributes);
  AttributeValues(const AttributeValues&) = delete;
  const weft_kv* data() const { return values_.data(); }
  uint64_t size() const { return values_.size(); }

 private:
  const std::vector<plan::Attribute> attributes_;
  std::vector<weft_kv> values_;  // borrow from attributes_
};

// An operation of a library, which lives as long as the process.
struct StableOperation {
  const weft_operation& table;
  std::string id;
  std::string library;  // its path
};

// A parameter that an operation adds to a layer.
struct AddedParameter {
  std::string child, name;  // "lora_A", "weight"
  std::vector<int64_t> shape;
  std::vector<uint32_t> along;  // WEFT_ALONG_* of each dimension
  nn::Initial initial;
  std::string full_name() const { return child + "." + name; }
};

// Returns what the operation adds to a layer with these features. Throws the error of the library, and
// FAILED_PRECONDITION naming it if it declares what cannot be.
std::vector<AddedParameter> added_parameters(const StableOperation& operation,
                                             const AttributeValues& attributes, int64_t inputs,
                                             int64_t outputs);

// Calls the forward and backward of the operation.
class StableProduct final : public nn::LinearProduct {
 public:
  // An added parameter, and a function that returns it with a gradient summed over ranks; null if every rank
  // computes the whole gradient.
  struct Slot {
    std::string name;  // "lora_A.weight"
    at::Tensor parameter;
    Site::Summed summed = {};
  };

  StableProduct(const StableOperation& operation, std::shared_ptr<const AttributeValues> attributes,
                std::vector<Slot> slots)
      : slots(std::move(slots)), operation_(operation), attributes_(std::move(attributes)) {}
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) const override;

  std::vector<Slot> slots;  // in the order of added_parameters()

 private:
  const StableOperation& operation_;
  const std::shared_ptr<const AttributeValues> attributes_;
};

}  // namespace weft
