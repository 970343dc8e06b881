// Where an operation is installed: one layer of the model, and what lies around it.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "weft/nn/layers.hpp"
#include "weft/plan.hpp"
#include "weft/world.hpp"

namespace weft {

namespace parallel {
class RegionInput;
class ResidualStream;
}  // namespace parallel

class Site {
 public:
  virtual ~Site() = default;

  // The layer itself. Throws INVALID_ARGUMENT naming it if its class is not derived from L.
  template <class L>
  L& layer() const {
    if (auto* const layer = dynamic_cast<L*>(&module())) return *layer;
    refuse_class(typeid(L));
  }
  // Puts `value` into a slot of the layer, until the plan is lifted.
  template <class T, class V>
  void set(T& slot, V value) {
    change([&slot, wanted = T(std::move(value))] { slot = wanted; },
           [&slot, before = slot] { slot = before; });
  }

  virtual const plan::ParallelSizes& sizes() const = 0;
  bool splits_layers() const { return sizes().tensor > 1; }
  bool splits_sequence() const { return sizes().sequence > 1; }
  bool is_parallel() const { return splits_layers() || splits_sequence(); }

  // The ranks of the tensor axis.
  virtual const Communicator& tensor() const = 0;
  // Returns what gives the layer's parameter a gradient that is summed over all ranks which hold the same
  // elements of it: the tensor axis for a parameter that is not split. For operations in which each of these
  // ranks computes with them something of its own. Collective over the tensor axis.
  using Summed = std::function<at::Tensor(const at::Tensor& parameter)>;
  virtual Summed summed_gradient(std::string_view parameter) = 0;

  // Returns what each rank keeps of the layer's parameter. Throws INTERNAL if it has none of this name.
  virtual const plan::PlannedParameter& planned(std::string_view parameter) const = 0;

  // The residual stream that goes through the layer, and that of the modules below `path`, which throws
  // INVALID_ARGUMENT if no sequence begins there.
  virtual const std::shared_ptr<parallel::ResidualStream>& stream() const = 0;
  virtual const std::shared_ptr<parallel::ResidualStream>& stream_below(const std::string& path) const = 0;
  // The border that all layers of this layer's parent share whose attribute `input` is "shared".
  virtual std::shared_ptr<parallel::RegionInput> shared_input() = 0;

 protected:
  virtual torch::nn::Module& module() const = 0;
  [[noreturn]] virtual void refuse_class(const std::type_info& wanted) const = 0;
  // Calls `apply` now and whenever the plan is applied again, `undo` when it is lifted.
  virtual void change(std::function<void()> apply, std::function<void()> undo) = 0;
};

}  // namespace weft
