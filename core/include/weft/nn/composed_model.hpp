// A model put together from inputs, units and a head. What it is composed of decides which batches it takes,
// what passes between its units and which outputs and losses it has; stack_model.hpp and encoder_decoder.hpp
// have the two compositions that families derive from.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/head.hpp"
#include "weft/nn/inputs.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/model.hpp"
#include "weft/nn/unit.hpp"

namespace weft::nn {

// What tells one class of a family from another.
struct ModelTraits {
  std::string architecture;  // of the class, as in config.json's "architectures"
  std::string prefix;        // of the names of the base model's parameters: "transformer." or nothing
  int64_t channels;          // of kHidden
  at::ScalarType dtype;
};

// The layers after the last block of a stack, which act on each position alone: a norm, or nothing.
struct LastLayers {
  Head::Finish apply = [](const at::Tensor& x) { return x; };
  std::vector<torch::nn::Module*> modules = {};
};
// `layer` must outlive the model's units, as the modules in its tree do.
template <class L>
LastLayers last_layer(const std::shared_ptr<L>& layer) {
  return {[layer = layer.get()](const at::Tensor& x) { return (*layer)(x); }, {layer.get()}};
}

// The base of models that are composed of inputs, units and a head.
class ComposedModel : public Model {
 public:
  std::string architecture() const override { return traits_.architecture; }
  std::string base_prefix() const override { return traits_.prefix; }
  std::vector<Unit*> units() override;
  std::vector<LossTerm> loss(const State& last, const Batch& batch) const override;
  std::vector<LossCount> counts(const Batch& batch) const override;
  State outputs(const State& last) const override { return last; }
  std::vector<FieldShape> boundary(const Batch& batch, size_t index) const override;
  std::vector<Tie> ties() const override { return head_->ties(); }

 protected:
  ComposedModel(const Config& config, ModelTraits traits);
  // Where the base model's modules are registered: the module that the prefix names, or this.
  torch::nn::Module& base() { return *base_; }
  const ModelTraits& traits() const { return traits_; }
  const Head& head() const { return *head_; }
  size_t num_units() const { return units_.size(); }
  void add(std::unique_ptr<Unit> unit) { units_.push_back(std::move(unit)); }
  void add_all(std::vector<std::unique_ptr<Unit>> units);
  // The last unit: `before_end`, then `stream_end`, then the head, which applies `finish`. It erases every
  // field that entered it but those of `kept`.
  void add_epilogue(LastLayers before_end, Identity& stream_end, LastLayers finish,
                    std::unique_ptr<Head> head, std::vector<std::string> kept = {});
  // kHidden of `positions`, (N..., T), as it passes between blocks.
  FieldShape hidden_field(at::IntArrayRef positions, std::string sequence) const;

  // A field that units make, as it enters units `first` to `last`.
  struct Passed {
    FieldShape field;
    size_t first, last;
  };
  // The fields that units pass on beside those of `input`, in the order in which the state holds them.
  virtual std::vector<Passed> made_fields(const Batch& batch, const State& input) const = 0;
  // The last unit that a field of input() enters.
  virtual size_t last_reader(std::string_view field) const = 0;
  // The shape of the positions that the head reads, from the shapes of the batch's fields alone.
  virtual std::vector<int64_t> head_positions(const Batch& batch) const = 0;
  // Adds what the units of a family read beside the fields of its inputs.
  virtual void add_fields(const BatchFields& batch, State& state) const {}

 private:
  const ModelTraits traits_;
  torch::nn::Module* base_ = this;
  std::unique_ptr<Head> head_;
  std::vector<std::unique_ptr<Unit>> units_;
};

}  // namespace weft::nn
