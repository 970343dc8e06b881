// The layer on which an operation is installed, and its surroundings.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "weft/nn/layers.hpp"
#include "weft/nn/residual_stream.hpp"
#include "weft/plan.hpp"
#include "weft/world.hpp"

namespace weft {

// Passed to Operation::install, once for each layer of an entry.
class Site {
 public:
  virtual ~Site() = default;

  // Returns the layer. Throws INVALID_ARGUMENT naming it if its class is not derived from L.
  template <class L>
  L& layer() const {
    if (auto* const layer = dynamic_cast<L*>(&module())) return *layer;
    refuse_class(typeid(L));
  }
  // Sets a slot of the layer to `value`. The slot gets its former value back when the plan is lifted.
  template <class T, class V>
  void set(T& slot, V value) {
    change([&slot, wanted = T(std::move(value))] { slot = wanted; },
           [&slot, before = slot] { slot = before; });
  }

  virtual const plan::ParallelSizes& sizes() const = 0;
  bool splits_layers() const { return sizes().tensor > 1; }
  bool splits_sequence() const { return sizes().sequence > 1; }
  bool is_parallel() const { return splits_layers() || splits_sequence(); }
  // Returns whether the ranks of the tensor axis hold different parts of the layer's parameters, whichever
  // operation shards them.
  virtual bool is_split() const = 0;

  // Returns the ranks of the tensor axis.
  virtual const Communicator& tensor() const = 0;
  // Returns a function that returns the layer's parameter with a gradient summed over the ranks of the tensor
  // axis that hold the same elements of it (all of them for a replicated parameter). Needed when each of
  // these ranks uses the elements for a different part of the computation. Collective over the tensor axis.
  using Summed = std::function<at::Tensor(const at::Tensor& parameter)>;
  virtual Summed summed_gradient(std::string_view parameter) = 0;

  // Returns how the layer's parameter is sharded. Throws INTERNAL if the layer has no parameter of this name.
  virtual const plan::PlannedParameter& planned(std::string_view parameter) const = 0;

  // Returns the residual stream that passes through the layer.
  virtual std::shared_ptr<nn::ResidualStream> stream() const = 0;
  // Returns the residual stream of the modules below `path`. Throws INVALID_ARGUMENT if no sequence begins
  // there.
  virtual std::shared_ptr<nn::ResidualStream> stream_below(const std::string& path) const = 0;
  // Returns the input that this layer shares with the layers of its parent whose attribute `input` is
  // "shared".
  virtual std::shared_ptr<nn::RegionInput> shared_input() = 0;

 protected:
  virtual torch::nn::Module& module() const = 0;
  [[noreturn]] virtual void refuse_class(const std::type_info& wanted) const = 0;
  // Calls `apply` now and each time the plan is applied again, and `undo` each time it is lifted.
  virtual void change(std::function<void()> apply, std::function<void()> undo) = 0;
};

}  // namespace weft
