// A model as applications hold it: opened from a folder or a configuration, without memory until it is
// boosted.
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

// A copy is the same model.
class Model {
 public:
  Model() = default;
  // `path` is a model folder (config.json, optional weights) or a config.json. The architecture's library is
  // found by name; `architecture` overrides architectures[0].
  static Model open(const std::string& path, const std::string& architecture = "",
                    const std::string& precision = "fp32");
  // A model of the application's own.
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
  optim::Parameters parameters() const;  // all that train
  int64_t num_elements() const;          // of all parameters, tied ones once

  // Forward of this rank's batch with the strategy's hooks, in the mode that train() and eval() set; the
  // outputs under their Hugging Face names: of logits that ranks divide (tp_size or sp_size) this rank's
  // part, unless the strategy's option parallel_output is false. Needs a boosted model.
  State operator()(const Batch& batch) const;
  void train() const;
  void eval() const;

  struct Shared;
  Shared& shared() const;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace weft
