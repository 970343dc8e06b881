// Checks and reads the fields of a batch. Errors name the model class, the field, what was found and what is
// wanted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/field_names.hpp"
#include "weft/state.hpp"

namespace weft::nn {

// The field of a State with the hidden states that blocks pass on: (N, T, C). N rows: samples, or samples
// times choices; T positions; C channels.
inline constexpr const char* kHidden = "hidden";

// The fields of a batch, checked when they are read. Every check throws INVALID_ARGUMENT.
class BatchFields {
 public:
  BatchFields(const Batch& batch, std::string_view architecture)
      : batch_(batch), architecture_(architecture) {}

  const Batch& batch() const { return batch_; }
  bool has(std::string_view name) const { return batch_.has(name); }
  // Throws if the batch has a field that is not in `known`.
  void refuse_others(const std::vector<std::string>& known) const;

  // Returns the field as int64. Throws unless it exists and has dtype int32 or int64.
  at::Tensor integers(std::string_view name) const;
  // Returns the field. Throws unless it exists and has a floating-point dtype.
  at::Tensor reals(std::string_view name) const;
  // Throws unless the field has one of `shapes`.
  void require_shape(std::string_view name, const std::vector<std::vector<int64_t>>& shapes) const;
  // Throws unless all values are in 0 to count - 1. If `ignored`, the value -100 is allowed too.
  void require_range(std::string_view name, int64_t count, bool ignored = false) const;
  // Throws INVALID_ARGUMENT with "<architecture>: <name>: <text>".
  [[noreturn]] void refuse(std::string_view name, const std::string& text) const;

 private:
  const Batch& batch_;
  std::string architecture_;
};

// Returns a shape as text: "[2, 3]".
std::string shape_text(at::IntArrayRef shape);

}  // namespace weft::nn
