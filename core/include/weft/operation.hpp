// An operation: what a plan may make of a layer. Everything that is true of one operation stands in one file
// of this folder, or in two where the half that fills the layer's slot needs libtorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/error.hpp"
#include "weft/plan.hpp"

namespace weft {

class Site;

namespace nn {
class Layer;
}

namespace plan {

// An attribute of an operation.
struct AttributeRule {
  Attribute standard;  // its key, its kind and its default
  std::string documentation;
  std::vector<std::string> choices = {};  // of a text
  int64_t minimum = 0;                    // of an integer
};

// The attributes of an entry, complete.
class Attributes {
 public:
  explicit Attributes(const std::vector<Attribute>& values) : values_(values) {}
  // Each throws INTERNAL naming a key that the operation does not have.
  bool flag(std::string_view key) const { return at(key).integer != 0; }
  int64_t integer(std::string_view key) const { return at(key).integer; }
  const std::string& text(std::string_view key) const { return at(key).text; }

 private:
  const Attribute& at(std::string_view key) const {
    for (const Attribute& attribute : values_)
      if (attribute.key == key) return attribute;
    throw Error(WEFT_INTERNAL, "an entry of the plan has no attribute \"" + std::string(key) + "\"");
  }
  const std::vector<Attribute>& values_;
};

// What an entry says of the whole model.
enum class Fact {
  kPlainNormalization,    // norms run in the form that is not fused
  kPlainElementwise,      // so do activations or dropouts
  kPlainAttention,        // and attention
  kSplitsVocabulary,      // the rows of a vocabulary are split over the tensor axis
  kDividesLogits,         // on a tensor axis each rank has its part of the logits
  kBeginsSequence,        // a sequence is split from here on
  kBeginsNestedSequence,  // the modules below the parent have a sequence of their own
  kEndsSequence,          // a sequence is whole again from here on
  kOwnPositions,          // on a sequence axis the logits are those of this rank's positions
  kAttends,               // positions are mixed here
};

// An entry states `fact` if its flag `key` is `value`, or always if `key` is empty.
struct Claim {
  Fact fact;
  std::string key = "";
  bool value = true;
};

// What a rank holds and what it sends over the tensor axis, for the table in the documentation.
struct Communication {
  std::string keeps;
  std::string forward = "";
  std::string backward = "";
};

// What an operation may look at when it cuts the parameters of a node.
struct CutRequest {
  const Attributes& attributes;
  const ParallelSizes& sizes;
  // For an operation that adds parameters to a layer: how the layer's own are cut. Null otherwise.
  const PlannedNode* layer = nullptr;
};

// An operation.
struct Operation {
  using Cut = void (*)(PlannedNode& node, const CutRequest& request, std::vector<std::string>& problems);
  using Install = void (*)(Site& site, const Attributes& attributes);
  using Add = void (*)(nn::Layer& layer, const Attributes& attributes);
  using Configuration = std::string (*)(const Attributes& attributes, const std::vector<PlannedNode>& layers);

  std::string id;  // "vendor.name/revision"
  std::string documentation;
  std::vector<std::string> kinds;         // of the modules that it fits
  std::vector<AttributeRule> attributes;  // sorted by key
  Communication communication = {};
  // Fills the `ranks` of the node's parameters. Adds to `problems` what does not fit. Null: every rank has
  // all of them.
  Cut cut = nullptr;
  std::vector<Claim> claims = {};
  // Fills the slots of a layer. Null for the operations of Weft itself, whose second halves are listed beside
  // them.
  Install install = nullptr;
  // For an operation that adds parameters (weft::Model::adapt): gives the layer children of class
  // nn::Addition, and the slot that computes with them. Such an operation is not for shard policies.
  Add add = nullptr;
  // Returns the adapter_config.json of the layers that it was added to. With `add` only.
  Configuration configuration = nullptr;
};

// What a library of operations provides. `find` returns null for an id that it does not have; what it returns
// lives as long as the process.
struct OperationFactory {
  uint64_t struct_size = sizeof(OperationFactory);
  const Operation* (*find)(std::string_view id) = nullptr;
};
inline constexpr const char* kOperationFactory = "weft.factory.operation/1";

}  // namespace plan
}  // namespace weft
