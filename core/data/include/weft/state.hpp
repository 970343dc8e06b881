// State: named tensors in order. A unit's input and output, a batch of samples, the outputs of a model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

// An ordered set of named tensors, its fields. Copies share the tensors.
class State {
 public:
  using Field = std::pair<std::string, at::Tensor>;

  State() = default;
  State(std::initializer_list<Field> fields) : fields_(fields) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Returns the field, or null.
  const at::Tensor* find(std::string_view name) const;
  // Returns the field. Throws NOT_FOUND naming the fields that exist.
  const at::Tensor& at(std::string_view name) const;
  // Adds or replaces a field.
  void set(std::string_view name, at::Tensor tensor);
  // Removes a field, if it exists.
  void erase(std::string_view name);

  size_t size() const { return fields_.size(); }
  bool empty() const { return fields_.empty(); }
  std::vector<Field>::iterator begin() { return fields_.begin(); }
  std::vector<Field>::iterator end() { return fields_.end(); }
  std::vector<Field>::const_iterator begin() const { return fields_.begin(); }
  std::vector<Field>::const_iterator end() const { return fields_.end(); }

 private:
  std::vector<Field> fields_;
};

// Tensors named as a model's inputs and labels. The first dimension of every field counts samples.
struct Batch : State {
  using State::State;
  // The number of samples. Throws INVALID_ARGUMENT if there is no field, or naming two fields that disagree.
  int64_t samples() const;
  // A stand-in: this rank got no sample of a short batch and runs one that another rank has, so that it still
  // takes part in every collective. Weft multiplies its loss by zero and counts no label of it.
  bool empty = false;
};

}  // namespace weft
