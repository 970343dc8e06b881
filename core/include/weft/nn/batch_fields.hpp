// Reads the fields of a batch, with errors that name the class, the field, what was found and what is wanted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/state.hpp"

namespace weft::nn {

// Fields of every kind of model. N rows: samples, or samples times choices; T positions; C channels.
inline constexpr const char* kLabels = "labels";
// What blocks pass on: (N, T, C).
inline constexpr const char* kHidden = "hidden";

// A label that counts nothing.
inline constexpr int64_t kIgnored = -100;

// The fields of a batch, checked as they are read. Errors name the architecture, the field and what is wrong.
class BatchFields {
 public:
  BatchFields(const Batch& batch, std::string_view architecture)
      : batch_(batch), architecture_(architecture) {}

  const Batch& batch() const { return batch_; }
  bool has(std::string_view name) const { return batch_.has(name); }
  // Refuses fields that are none of `known`.
  void refuse_others(const std::vector<std::string>& known) const;

  // int64; the field must be there and of type int32 or int64.
  at::Tensor integers(std::string_view name) const;
  // Of any floating type.
  at::Tensor reals(std::string_view name) const;
  // Throws unless the field has one of `shapes`.
  void require_shape(std::string_view name, const std::vector<std::vector<int64_t>>& shapes) const;
  // Throws unless all values are 0 to count - 1 (or -100, where ignored ones may be).
  void require_range(std::string_view name, int64_t count, bool ignored = false) const;
  // INVALID_ARGUMENT: "<architecture>: <name>: <text>".
  [[noreturn]] void refuse(std::string_view name, const std::string& text) const;

 private:
  const Batch& batch_;
  std::string architecture_;
};

// "[2, 3]"
std::string shape_text(at::IntArrayRef shape);

}  // namespace weft::nn
