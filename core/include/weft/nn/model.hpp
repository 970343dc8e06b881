// The base of every model that Weft trains: a tree of modules whose parameter names are Hugging Face's, cut
// into units.
//
// A model is built without memory (on the meta device); a strategy binds storage to its parameters later. It
// names no rank and no group.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config.hpp"
#include "weft/nn/unit.hpp"
#include "weft/state.hpp"

namespace weft::nn {

// How a parameter begins. Values depend on the seed, the parameter's name and the global index alone.
struct Initial {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  double first = 0;   // the constant, the mean, the lower bound
  double second = 0;  // unused, the standard deviation, the upper bound
  // Elements of the whole parameter that begin as 0 where others are drawn: the row of a padding token.
  int64_t zeros_begin = 0, zeros_end = 0;
  static Initial constant(double value) { return {Kind::kConstant, value, 0}; }
  static Initial normal(double mean, double deviation) { return {Kind::kNormal, mean, deviation}; }
  static Initial uniform(double low, double high) { return {Kind::kUniform, low, high}; }
};

// One term of the loss: `sum` over the labels of this batch (a scalar that requires grad), to be divided by
// the global count of its labels and multiplied by `weight`.
struct LossTerm {
  std::string name;  // "loss", "lm_loss", "mc_loss"
  double weight = 1;
  at::Tensor sum;
  std::string output = "loss";  // of Hugging Face's class that the term is part of
};

// How many labels of a batch a term averages over.
struct LossCount {
  std::string name;
  double count = 0;
};

// `name` is another name of the parameter `canonical`: one tensor, written once.
struct Tie {
  std::string name;
  std::string canonical;
};

// A field that enters a unit, for pipelines. `shape` is that of the whole field, before ranks divide it.
struct FieldShape {
  // What ranks hold of it where they split sequences or heads.
  enum class Division {
    kNone,          // every rank has the whole field
    kPositions,     // (N, T, ...): the positions of `sequence` that the residual stream has on this rank
    kRegion,        // (N, T, ...): those that a tensor-parallel region has
    kPositionBias,  // (1 or N, H, T, T): the heads and the queries that attention has on this rank
  };
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType dtype;
  bool differentiable;
  Division division = Division::kNone;
  std::string sequence = {};  // as SequenceLength's name
};

// One of a model's sequences and the number of its positions in a batch.
struct SequenceLength {
  // The path of the module that the sequence runs through ("encoder"), without the base model's prefix; empty
  // for a model with one sequence.
  std::string name;
  int64_t positions = 0;
  int64_t rows = 0;  // sequences of that length in the batch: its samples, or samples times choices
};

// The base of all models.
class Model : public torch::nn::Module {
 public:
  explicit Model(Config config) : config_(std::move(config)) {}

  const Config& config() const { return config_; }
  // of the class, as in config.json's "architectures"
  virtual std::string architecture() const = 0;
  // The path of the base model inside this one ("transformer."), empty if this is it.
  virtual std::string base_prefix() const { return ""; }

  // In the order of execution; owned by the model.
  virtual std::vector<Unit*> units() = 0;

  // Checks a batch (names, shapes, ranges of what is cheap to check) and makes what the first unit takes.
  // Throws INVALID_ARGUMENT naming the field, what was found and what is wanted.
  virtual State input(const Batch& batch) const = 0;

  // The loss of what the last unit gave; empty if the batch has no labels. The same terms in the same order
  // as counts().
  virtual std::vector<LossTerm> loss(const State& last, const Batch& batch) const = 0;
  // Known before forward from the batch alone.
  virtual std::vector<LossCount> counts(const Batch& batch) const = 0;

  // The outputs under their Hugging Face names ("logits", "last_hidden_state").
  virtual State outputs(const State& last) const = 0;

  // The fields that enter unit `index` for this batch.
  virtual std::vector<FieldShape> boundary(const Batch& batch, size_t index) const = 0;
  // The lengths of the sequences that the blocks process for a batch that input() accepts, from the shapes of
  // its fields alone. Empty: the model has no sequence that ranks can split.
  virtual std::vector<SequenceLength> lengths(const Batch& batch) const { return {}; }
  // A batch of `samples` samples that input() accepts, with `positions` positions in each sequence, for
  // estimates. Inputs of a fixed size ignore `positions`. Empty if the model has no example.
  virtual std::optional<Batch> example(int64_t samples, int64_t positions) const { return std::nullopt; }

  virtual std::vector<Tie> ties() const { return {}; }
  virtual Initial initial(std::string_view parameter) const = 0;
  // True for parameters that Hugging Face keeps frozen.
  virtual bool frozen(std::string_view parameter) const { return false; }
  // True for entries of old checkpoints that hold nothing (causal masks, for example).
  virtual bool ignored_on_load(std::string_view entry) const { return false; }

 private:
  Config config_;
};

// What a model library provides (factory "weft.factory.model/1", tier native). `architecture` is the name of
// a Hugging Face class. The model is on the meta device, in `dtype`.
struct ModelFactory {
  uint64_t struct_size = sizeof(ModelFactory);
  std::shared_ptr<Model> (*create)(const Config& config, std::string_view architecture,
                                   at::ScalarType dtype) = nullptr;
};
inline constexpr const char* kModelFactory = "weft.factory.model/1";

}  // namespace weft::nn
