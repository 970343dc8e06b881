#include "weft/nn/batch_fields.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

void BatchFields::refuse_others(const std::vector<std::string>& known) const {
  for (const auto& [name, tensor] : batch_) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fail(WEFT_INVALID_ARGUMENT, "{}: it has no input \"{}\"{}; its inputs are: {}", architecture_,
         printable(name, 60), did_you_mean(name, known), fmt::join(known, ", "));
  }
}

at::Tensor BatchFields::integers(std::string_view name) const {
  const at::Tensor* field = batch_.find(name);
  if (!field) fail(WEFT_INVALID_ARGUMENT, "{}: the batch has no \"{}\"", architecture_, name);
  if (field->scalar_type() != at::kLong && field->scalar_type() != at::kInt) {
    refuse(name, fmt::format("its type is {}, must be int64 or int32", c10::toString(field->scalar_type())));
  }
  return field->to(at::kLong);
}

at::Tensor BatchFields::reals(std::string_view name) const {
  const at::Tensor* field = batch_.find(name);
  if (!field) fail(WEFT_INVALID_ARGUMENT, "{}: the batch has no \"{}\"", architecture_, name);
  if (!field->is_floating_point()) {
    refuse(name,
           fmt::format("its type is {}, must be a floating point type", c10::toString(field->scalar_type())));
  }
  return *field;
}

void BatchFields::require_shape(std::string_view name,
                                const std::vector<std::vector<int64_t>>& shapes) const {
  const at::IntArrayRef found = batch_.at(name).sizes();
  std::vector<std::string> wanted;
  for (const std::vector<int64_t>& shape : shapes) {
    if (found == at::IntArrayRef(shape)) return;
    wanted.push_back(shape_text(shape));
  }
  refuse(name, fmt::format("its shape is {}, must be {}", shape_text(found), fmt::join(wanted, " or ")));
}

void BatchFields::require_range(std::string_view name, int64_t count, bool ignored) const {
  const std::string what = fmt::format("{}: {}", architecture_, name);
  check_ids(integers(name), count, what, ignored ? std::optional(kIgnored) : std::nullopt);
}

void BatchFields::refuse(std::string_view name, const std::string& text) const {
  fail(WEFT_INVALID_ARGUMENT, "{}: {}: {}", architecture_, name, text);
}

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace weft::nn
