#include "weft/state.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace weft {

namespace {

std::vector<std::string> names_of(const State& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  return names;
}

}  // namespace

const at::Tensor* State::find(std::string_view name) const {
  for (const Field& field : fields_) {
    if (field.first == name) return &field.second;
  }
  return nullptr;
}

const at::Tensor& State::at(std::string_view name) const {
  if (const at::Tensor* tensor = find(name)) return *tensor;
  const std::vector<std::string> names = names_of(*this);
  if (names.empty()) fail(WEFT_NOT_FOUND, "no tensor \"{}\": there are none", name);
  fail(WEFT_NOT_FOUND, "no tensor \"{}\"{}; there are: {}", name, did_you_mean(name, names),
       fmt::join(names, ", "));
}

void State::set(std::string_view name, at::Tensor tensor) {
  for (Field& field : fields_) {
    if (field.first == name) {
      field.second = std::move(tensor);
      return;
    }
  }
  fields_.emplace_back(name, std::move(tensor));
}

void State::erase(std::string_view name) {
  std::erase_if(fields_, [&](const Field& field) { return field.first == name; });
}

int64_t Batch::samples() const {
  if (State::empty()) fail(WEFT_INVALID_ARGUMENT, "the batch has no fields");
  const Field& first = *begin();
  for (const auto& [name, tensor] : *this)
    if (tensor.dim() == 0 || tensor.size(0) != first.second.size(0))
      fail(WEFT_INVALID_ARGUMENT, "the fields of a batch must have as many samples: {} has {}, {} has {}",
           first.first, first.second.dim() == 0 ? 0 : first.second.size(0), name,
           tensor.dim() == 0 ? 0 : tensor.size(0));
  return first.second.size(0);
}

}  // namespace weft
