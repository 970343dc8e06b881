// An operation: what a layer computes when a plan names it, how the layer's parameters are sharded, and what
// the ranks send. Weft's own operations are in core/plans/operations; a library may provide more
// (OperationFactory).
#pragma once

#include <cstdint>
#include <functional>
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
  Attribute standard;  // its key, its kind and its default value
  std::string documentation;
  std::vector<std::string> choices = {};  // allowed values of a text; empty allows any
  int64_t minimum = 0;                    // of an integer or a real number
};

// The complete attributes of an entry: those that it gives, and the defaults of the others.
class Attributes {
 public:
  explicit Attributes(const std::vector<Attribute>& values) : values_(values) {}
  // Return the value of an attribute. Throw INTERNAL naming `key` if the operation has no such attribute.
  bool flag(std::string_view key) const { return at(key).integer != 0; }
  int64_t integer(std::string_view key) const { return at(key).integer; }
  double real(std::string_view key) const { return at(key).real; }
  const std::string& text(std::string_view key) const { return at(key).text; }
  const Attribute& at(std::string_view key) const {
    for (const Attribute& attribute : values_)
      if (attribute.key == key) return attribute;
    throw Error(WEFT_INTERNAL, "an entry of the plan has no attribute \"" + std::string(key) + "\"");
  }

 private:
  const std::vector<Attribute>& values_;
};

// What an entry tells about the whole model.
enum class Fact {
  kPlainForm,             // the layers run in their plain form, whatever the user's options say
  kSplitsVocabulary,      // the vocabulary is sharded over the tensor axis
  kDividesLogits,         // each rank of the tensor axis computes its part of the logits
  kBeginsSequence,        // a sequence is split from here on
  kSplitsSequence,        // every rank has all positions of a sequence until here
  kBeginsNestedSequence,  // the modules below the parent process a sequence of their own
  kEndsSequence,          // every rank has all positions of a sequence from here on
  kOwnPositions,          // each rank of the sequence axis computes the logits of its own positions
  kAttends,               // positions of a sequence are mixed here
  kSplitsOutput,  // each rank of the tensor axis computes its output features, as a column-parallel layer
  kSplitsInput,   // each rank of the tensor axis reads its input features, as a row-parallel layer
};

// An entry states `fact` if its flag `key` is `value`, or always if `key` is empty.
struct Claim {
  Fact fact;
  std::string key = "";
  bool value = true;
};

// Something that the ranks of the tensor and sequence axes send for a layer. Which collective carries it
// depends on how sequences are split; plan/traffic.hpp knows, and counts the bytes.
struct Transfer {
  enum class Kind {
    kEnter,              // the input of a region: backward sums its gradient over the ranks
    kEnterLinear,        // the same by a linear layer, which gathers the input of a split sequence again
    kEnterLinearShared,  // the same once for all such layers of one parent
    kLeave,              // the output of a region: the sum of the ranks' partial outputs
    kLeaveLinear,        // the same by a linear layer, which can send a part while it computes the next
    kSplit,              // the beginning of a split: backward gathers the gradient of all positions
    kEnd,                // the end of a split: all positions of the output
    kAttend,             // attention to a sequence that is split over a sequence axis
    kAttendSource,       // the same to the sequence below the module that the attribute `source` names
    kEnterHead,          // the input of a head, of which each rank computes some classes
    kLogits,             // the logits of all classes
    kLoss,               // three numbers for each label, for a loss over all classes
    kGradients,          // the gradients of the layer's parameters, which every rank holds
    kSharedGradients,    // the gradients of the elements of a sharded layer that several ranks hold
    kOwnGradients,       // the gradients of replicated parameters, if tensor-parallel ranks split sequences
  };
  Kind kind;
  // Sent only if the attribute `key` has this value ("true", "own"), or always if `key` is empty.
  std::string key = "";
  std::string value = "";
};

// The arguments of Operation::cut.
struct CutRequest {
  const Attributes& attributes;
  const ParallelSizes& sizes;
  // For an operation that adds parameters to a layer: how the layer's own parameters are cut. Null otherwise.
  const PlannedNode* layer = nullptr;
};

// An operation.
struct Operation {
  using Cut =
      std::function<void(PlannedNode& node, const CutRequest& request, std::vector<std::string>& problems)>;
  using Install = std::function<void(Site& site, const Attributes& attributes)>;
  using Add = std::function<void(nn::Layer& layer, const Attributes& attributes)>;
  using Configuration =
      std::function<std::string(const Attributes& attributes, const std::vector<PlannedNode>& layers)>;

  std::string id;  // "vendor.name/revision"
  std::string documentation;
  std::vector<std::string> kinds;         // of the modules that it can be given to
  std::vector<AttributeRule> attributes;  // sorted by key
  // What each rank of the tensor axis holds of the layer's parameters, for the documentation.
  std::string keeps = "";
  // What the ranks send. The plan's text, the estimates and the documentation are made from it.
  std::vector<Transfer> transfers = {};
  // Fills the `cuts` of the node's parameters. Adds a text to `problems` for each thing that does not fit.
  // Null if the parameters are replicated.
  Cut cut = nullptr;
  std::vector<Claim> claims = {};
  // Fills the slots of a layer. Null for Weft's own operations, whose function is found by their name
  // (operations/layers.hpp).
  Install install = nullptr;
  // For an operation that adds parameters (weft::Model::adapt): gives the layer children of class
  // nn::Addition and fills the slot that computes with them. A shard policy cannot name such an operation.
  // Null otherwise.
  Add add = nullptr;
  // Returns the adapter_config.json of the layers that have the addition. Null unless `add` is set.
  Configuration configuration = nullptr;
};

// The factory of a library that provides operations. `find` returns null for an id that the library does not
// have; an operation that it returns must live as long as the process.
struct OperationFactory {
  uint64_t struct_size = sizeof(OperationFactory);
  const Operation* (*find)(std::string_view id) = nullptr;
};
inline constexpr const char* kOperationFactory = "weft.factory.operation/1";

}  // namespace plan
}  // namespace weft
