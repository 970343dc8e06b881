// A model as applications hold it. It has shapes and no memory until it is boosted.
#pragma once

#include <memory>
#include <string>

#include "weft/config.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/state.hpp"

namespace weft {

namespace nn {
class Model;
}

// A handle of a model: copies refer to the same one.
class Model {
 public:
  Model() = default;
  // Opens a model folder (config.json and, optionally, weights) or a config.json. The library of the
  // architecture is found by name; `architecture` replaces architectures[0]. Throws NOT_FOUND,
  // INVALID_ARGUMENT, and UNIMPLEMENTED for what the family does not support.
  static Model open(const std::string& path, const std::string& architecture = "",
                    const std::string& precision = "fp32");
  // Wraps a model of the application's own.
  static Model adopt(std::shared_ptr<nn::Model> module);
  // Adds parameters to layers by an operation of an installed library, a low-rank adapter for example, and
  // freezes all others: parameters() are the added ones from then on. `adapter` is a JSON object, or the path
  // of a file with one: {"operation": ID, "on": PATTERN, ATTRIBUTE: VALUE, ...}; the pattern is one of a
  // shard policy. Before the optimizer is made. Throws INVALID_ARGUMENT naming what does not fit,
  // FAILED_PRECONDITION for a model that is adapted or boosted already.
  void adapt(const std::string& adapter);
  explicit operator bool() const { return shared_ != nullptr; }

  const Config& config() const;
  nn::Model& module() const;
  std::string architecture() const;
  optim::Parameters parameters() const;  // all that are trained
  int64_t num_elements() const;          // of all parameters, tied ones counted once

  // Runs forward of this rank's batch with the strategy's hooks, in the mode that train() and eval() set, and
  // returns the outputs under their Hugging Face names. Where ranks share the logits (tp_size or sp_size)
  // they are this rank's part, unless the strategy's option parallel_output is false. Throws
  // FAILED_PRECONDITION unless the model is boosted. Collective.
  State operator()(const Batch& batch) const;
  void train() const;
  void eval() const;

  struct Shared;
  Shared& shared() const;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace weft
