// The values that the parameters of a model begin with.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "box/box.hpp"
#include "training/handles.hpp"
#include "weft/nn/model.hpp"

namespace weft {

class ParameterSource;

// Values from `source`, if it is not null and has the parameter, otherwise those of the model for a seed.
class InitialValues {
 public:
  // `params` are all parameters of the model. Keeps references.
  InitialValues(const nn::Model& model, const std::vector<std::unique_ptr<weft_param>>& params, int64_t seed,
                ParameterSource* source)
      : model_(model), params_(params), seed_(seed), source_(source) {}
  // Fills `values` with elements [begin, begin + count) of this rank's part of `param`. Not collective.
  void read(const weft_param& param, int64_t begin, int64_t count, const at::Tensor& values) const;

 private:
  struct Owner;
  // A parameter whose values are computed, and the one that needs it; null for the first.
  struct Computed {
    const weft_param& param;
    const Computed* before;
  };
  Owner owner_of(const std::string& name) const;
  static bool is_computed(const Owner& owner);
  // Returns the whole value of a parameter whose initial values are those of its layer.
  at::Tensor computed(const Owner& owner, const Computed& of) const;
  // Returns the whole value of the parameter `name` of the layer of `owner`.
  at::Tensor layer_value(const Owner& owner, const std::string& name, const Computed& of) const;

  const nn::Model& model_;
  const std::vector<std::unique_ptr<weft_param>>& params_;
  const int64_t seed_;
  ParameterSource* const source_;
};

}  // namespace weft
