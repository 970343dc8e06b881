// A model that is composed of inputs, units and a head: the inputs decide which batches it takes, the units
// which fields of the State pass between them, the head which outputs and losses it has. Families derive from
// one of the two compositions, stack_model.hpp and encoder_decoder.hpp.
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

// What differs between the classes of a family.
struct ModelTraits {
  std::string architecture;  // the name of the class, as in "architectures" of config.json
  std::string prefix;        // the prefix of the base model's parameters: "transformer." or nothing
  int64_t channels;          // the size of the last dimension of kHidden
  at::ScalarType dtype;
};

// The layers after the last block of a stack: a norm, or nothing. They act on each position by itself.
struct LastLayers {
  Head::Finish apply = [](const at::Tensor& x) { return x; };
  std::vector<torch::nn::Module*> modules = {};
};
// Returns LastLayers that apply `layer`, which must outlive the model's units, as registered modules do.
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
  Labelled labelled() const override { return head_->labelled(); }
  std::vector<Objective> objectives() const override { return head_->objectives(); }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    return head_->metrics(outputs, batch);
  }
  std::string perplexity_term() const override { return head_->perplexity_term(); }
  State outputs(const State& last) const override { return last; }
  std::vector<FieldShape> boundary(const Batch& batch, size_t index) const override;
  std::vector<Tie> ties() const override { return head_->ties(); }

 protected:
  ComposedModel(const Config& config, ModelTraits traits);
  // Returns the module in which the base model's modules are registered: the one that the prefix names, or
  // this one.
  torch::nn::Module& base() { return *base_; }
  const ModelTraits& traits() const { return traits_; }
  const Head& head() const { return *head_; }
  size_t num_units() const { return units_.size(); }
  void add(std::unique_ptr<Unit> unit) { units_.push_back(std::move(unit)); }
  void add_all(std::vector<std::unique_ptr<Unit>> units);
  // Adds the last unit. It applies `before_end`, `stream_end`, and the head, which applies `finish` first. It
  // erases every field that entered it except those in `kept`.
  void add_epilogue(LastLayers before_end, Identity& stream_end, LastLayers finish,
                    std::unique_ptr<Head> head, std::vector<std::string> kept = {});
  // Returns the description of kHidden as it passes between blocks. `positions` is its shape without the
  // channels, (B, T) or (B, choices, T).
  FieldShape hidden_field(at::IntArrayRef positions, std::string sequence) const;

  // A field that a unit writes to the State and that enters the units `first` to `last`.
  struct Passed {
    FieldShape field;
    size_t first, last;
  };
  // Returns the fields that units write for later units, in the order of the State. `input` is what input()
  // returned.
  virtual std::vector<Passed> made_fields(const Batch& batch, const State& input) const = 0;
  // Returns the index of the last unit that this field of input() enters. No unit may change the field.
  virtual size_t last_reader(std::string_view field) const = 0;
  // Returns the shape of the positions that the head reads, from the shapes of the batch's fields.
  virtual std::vector<int64_t> head_positions(const Batch& batch) const = 0;
  // Adds fields that the units of a family read beside those of its inputs. The default adds none.
  virtual void add_fields(const BatchFields& batch, State& state) const {}

 private:
  const ModelTraits traits_;
  torch::nn::Module* base_ = this;
  std::unique_ptr<Head> head_;
  std::vector<std::unique_ptr<Unit>> units_;
};

}  // namespace weft::nn
