// The base of every model that Weft trains: a tree of modules whose parameter names are Hugging Face's, and a
// list of units that run in order.
//
// A model is created on the meta device, without memory; a strategy binds storage to its parameters later. A
// model knows nothing about ranks.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/config.hpp"
#include "weft/metric.hpp"
#include "weft/nn/decoding.hpp"
#include "weft/nn/unit.hpp"
#include "weft/state.hpp"

namespace weft::nn {

// The initial values of a parameter. They depend only on the seed, the name of the parameter and the index of
// the element in the whole parameter, so every strategy and number of ranks begins with the same values.
struct Initial {
  enum class Kind { kConstant, kNormal, kUniform, kSinusoids, kOfLayer };
  // Returns the values that a parameter of the layer or of one of its nn::Addition begins with, called by its
  // name in the layer ("weight", "lora_A.weight"): whole, on the host, in fp32, or fp64 if the parameter is.
  // Throws INVALID_ARGUMENT naming what the layer does not have.
  using LayerValues = std::function<at::Tensor(const std::string& parameter)>;
  // Returns the values of a whole parameter, on the host, in its shape and any floating dtype.
  using OfLayer = std::function<at::Tensor(const LayerValues& layer)>;
  Kind kind = Kind::kConstant;
  double first = 0;   // the constant, the mean, the lower bound, or the number of channels
  double second = 0;  // unused, the standard deviation, or the upper bound
  // The range of elements of the whole parameter that are 0 instead: the embedding of a padding token.
  int64_t zeros_begin = 0, zeros_end = 0;
  OfLayer function = {};  // of kOfLayer
  static Initial constant(double value) { return {Kind::kConstant, value, 0}; }
  static Initial normal(double mean, double deviation) { return {Kind::kNormal, mean, deviation}; }
  // Weights of a configuration whose "initializer_range" is `range`. As in Hugging Face, 0 is 0.02.
  static Initial weights(double range) { return normal(0, range == 0 ? 0.02 : range); }
  static Initial uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  // The fixed positions of a parameter (positions, channels): row p has sin(p f_0) ... sin(p f_h), then
  // cos(p f_0) ... cos(p f_h), of h + 1 = channels / 2 frequencies f_i = 10000^(-i/h) (Vaswani et al.,
  // Attention is all you need, section 3.5). `channels` is even and at least 4.
  static Initial sinusoids(int64_t channels) { return {Kind::kSinusoids, static_cast<double>(channels), 0}; }
  // The values of a parameter of an nn::Addition that depend on those of its layer, such as the norms of the
  // rows of the weight. The host calls `function` when a training begins whose checkpoint does not have the
  // parameter, after the values of the layer are known, on every rank that holds a part of the parameter, and
  // keeps this part. It may be called several times, must return the same bits each time and on every rank,
  // and may not communicate. A parameter that is read from a checkpoint is not computed again.
  static Initial of_layer(OfLayer function) {
    Initial initial{Kind::kOfLayer};
    initial.function = std::move(function);
    return initial;
  }
  // Returns these values with zeros in the row of a padding token, if there is one, of `channels` elements.
  Initial with_padding(const std::optional<int64_t>& row, int64_t channels) const {
    Initial padded = *this;
    if (row) {
      padded.zeros_begin = *row * channels;
      padded.zeros_end = padded.zeros_begin + channels;
    }
    return padded;
  }
};

// One term of the loss. `sum` is the sum over the labels of this batch, a scalar that requires grad; the host
// divides it by the number of labels in the global batch and multiplies it by `weight`.
struct LossTerm {
  std::string name;  // "loss", "lm_loss", "mc_loss"
  double weight = 1;
  at::Tensor sum;
  std::string output = "loss";  // the output of Hugging Face's class that the term is part of
};

// The number of labels of a batch that a term averages over.
struct LossCount {
  std::string name;
  double count = 0;
};

// What a model can learn from its inputs alone: its data needs no labels.
struct Objective {
  enum class Kind {
    kCausalLm,      // "causal_lm": predict each token from the tokens before it
    kMaskedLm,      // "masked_lm": predict masked tokens from all tokens of the sequence
    kMaskedImage,   // "masked_image": predict the pixels of masked patches from the whole image
    kNextSentence,  // "next_sentence": predict whether the second part of a sequence follows the first one
    kMaskedLmNextSentence,  // "masked_lm_next_sentence": both kMaskedLm and kNextSentence
  };
  Kind kind;
  int64_t patch_height = 0, patch_width = 0;  // of kMaskedImage, in pixels
  // Of kNextSentence and kMaskedLmNextSentence: the field of the labels (B), 0 if the second part follows.
  std::string sentence_labels = {};
};

// What the field "labels" of a batch gives labels to, in classes that learn classes or numbers from data.
enum class Labelled {
  kNothing,  // the class learns something else, such as the next token
  kSamples,  // each sample: (B), or (B, labels)
  kTokens,   // each token: (B, T)
};

// Two names of one parameter. Checkpoints store it once, as `canonical`.
struct Tie {
  std::string name;
  std::string canonical;
};

// A field of the State that enters a unit. `shape` is the shape before sequences are split across ranks. A
// position bias has as many heads as the attention layers that read it.
struct FieldShape {
  // How the field is sharded when a plan splits sequences or heads.
  enum class Division {
    kNone,          // replicated
    kPositions,     // (N, T, ...): sharded along the positions of `sequence`, as the residual stream is
    kRegion,        // (N, T, ...): sharded as the input of a tensor-parallel region is
    kPositionBias,  // (1 or N, H, T, T): sharded along the heads or queries, as attention is
  };
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType dtype;
  bool differentiable;
  Division division = Division::kNone;
  std::string sequence = {};  // SequenceLength::name of the sequence that it belongs to
  // Whether it still is the field of this name in input(batch), as no unit has changed it. A pipeline stage,
  // which has the batch too, makes such a field itself instead of receiving it.
  bool from_input = false;
};

// The length of one of a model's sequences in a batch.
struct SequenceLength {
  // The path of the module that processes the sequence ("encoder"), without the base model's prefix; empty
  // for a model with one sequence.
  std::string name;
  int64_t positions = 0;
  int64_t rows = 0;  // the number of sequences in the batch: samples, or samples times choices
};

// The base of all models.
class Model : public torch::nn::Module {
 public:
  explicit Model(Config config) : config_(std::move(config)) {}

  const Config& config() const { return config_; }
  // Returns the name of the class, as in "architectures" of config.json.
  virtual std::string architecture() const = 0;
  // Returns the prefix of the base model's parameters ("transformer."); empty if this is a base model.
  virtual std::string base_prefix() const { return ""; }

  // Returns the units in the order of execution. The model owns them.
  virtual std::vector<Unit*> units() = 0;

  // Checks a batch (names, shapes, ranges that are cheap to check) and returns the State that enters the
  // first unit. Throws INVALID_ARGUMENT naming the field, what was found and what is wanted.
  virtual State input(const Batch& batch) const = 0;
  // Returns how this model continues sequences of tokens. Empty for a model that does not predict the next
  // token from earlier ones.
  virtual std::optional<Decoding> decoding() const { return std::nullopt; }
  // Returns the State of a forward whose tokens continue those in a KeyValueCache: like input(), of a batch
  // that has the fields of Decoding for these tokens alone.
  virtual State continued_input(const Batch& batch) const { return input(batch); }

  // Returns the terms of the loss from the State that the last unit left; none if the batch has no labels.
  // The terms are those of counts(), in the same order.
  virtual std::vector<LossTerm> loss(const State& last, const Batch& batch) const = 0;
  // Returns the number of labels of each term. Reads only the batch, so it is known before forward.
  virtual std::vector<LossCount> counts(const Batch& batch) const = 0;

  // Returns what is given labels by people: the class learns no objective then.
  virtual Labelled labelled() const { return Labelled::kNothing; }
  // Returns the objectives that this class can be trained by on data without labels, the usual one first.
  // Empty for a class that learns only from labels in the data.
  virtual std::vector<Objective> objectives() const { return {}; }
  // Returns how well the outputs (as outputs() returns them) predict the labels of this batch, beside the
  // loss; none if the batch has no labels. The names depend only on the model and on the batch's fields and
  // dtypes.
  virtual std::vector<Metric> metrics(const State& outputs, const Batch& batch) const { return {}; }
  // Returns the name of the loss term whose exponential is a perplexity; empty if there is none.
  virtual std::string perplexity_term() const { return ""; }

  // Returns the outputs under their Hugging Face names ("logits", "last_hidden_state").
  virtual State outputs(const State& last) const = 0;

  // Returns the fields of the State that enter unit `index` for this batch.
  virtual std::vector<FieldShape> boundary(const Batch& batch, size_t index) const = 0;
  // Returns the lengths of the sequences that the blocks process. Reads the shapes of a batch that input()
  // accepts, and no values. Empty if the model has no sequence that can be split across ranks.
  virtual std::vector<SequenceLength> lengths(const Batch& batch) const { return {}; }
  // Returns a batch that input() accepts, with `samples` samples and `positions` positions in each sequence,
  // for estimates of memory. Inputs of a fixed size ignore `positions`. Empty if the model has no example.
  virtual std::optional<Batch> example(int64_t samples, int64_t positions) const { return std::nullopt; }

  // Returns the tied parameters.
  virtual std::vector<Tie> ties() const { return {}; }
  // Returns the initial values of a parameter, called by its name in the model.
  virtual Initial initial(std::string_view parameter) const = 0;
  // Returns true for parameters that Hugging Face does not train.
  virtual bool frozen(std::string_view parameter) const { return false; }
  // Returns whether a parameter may be missing from the weights that a training begins with: those of a head.
  virtual bool may_begin_new(std::string_view parameter) const {
    return !parameter.starts_with(base_prefix());
  }
  // Returns true for checkpoint entries that are no parameters, such as the causal masks in old checkpoints.
  virtual bool ignored_on_load(std::string_view entry) const { return false; }
  // Returns the buffers (register_buffer in PyTorch) that checkpoints of the Hugging Face class hold, by
  // their names there. A save writes them; Weft computes them and does not read them.
  virtual State constants() const { return {}; }

 private:
  Config config_;
};

// The factory that a model library provides (id "weft.factory.model/1", tier native). `create` returns the
// model of the Hugging Face class `architecture` on the meta device, in `dtype`.
struct ModelFactory {
  uint64_t struct_size = sizeof(ModelFactory);
  std::shared_ptr<Model> (*create)(const Config& config, std::string_view architecture,
                                   at::ScalarType dtype) = nullptr;
};
inline constexpr const char* kModelFactory = "weft.factory.model/1";

}  // namespace weft::nn
