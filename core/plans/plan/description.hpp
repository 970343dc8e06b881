// The description of a model that a shard policy reads: plain data, without tensors or libtorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/plan.hpp"

namespace weft::plan {

// A parameter of a module.
struct ParameterShape {
  std::string name;  // "weight"
  std::vector<int64_t> shape;
};

// An integer of a layer that a plan may divide.
struct DividableAttribute {
  std::string name;  // "num_heads"
  int64_t value = 0;
};

// Parameters that an operation has added to a module.
struct AddedParameters {
  std::string operation;
  std::vector<Attribute> attributes;   // complete, sorted by key
  std::vector<ParameterShape> params;  // "lora_A.weight"
};

// One module. Its path is relative to the base model; heads stand beside it.
struct Node {
  std::string path;                    // "h.0.attn.c_attn"
  std::string kind;                    // "Conv1D"
  std::vector<ParameterShape> params;  // its own, without those of its children
  std::vector<DividableAttribute> attributes = {};
  // Counts modules in the order in which units run them. A module that no unit names has the number of the
  // module that contains it; one that no unit runs has the largest number.
  size_t order = 0;
  std::optional<AddedParameters> added = {};
};

// `name` is another name of the parameter `canonical`.
struct TiedNames {
  std::string name;
  std::string canonical;
};

// A model.
struct ModelDescription {
  std::string architecture;        // of the class, as in config.json's "architectures"
  std::string config_json = "{}";  // an object
  std::vector<Node> nodes;         // in any order, paths are unique
  std::vector<TiedNames> ties;
};

// Returns the number of elements of a tensor of this shape.
int64_t num_elements(const std::vector<int64_t>& shape);

// Returns the path of the module that contains the one at `path`, "" for the root.
std::string parent_of(std::string_view path);

// Returns true if `a` comes before `b` when numbers are compared by value: h.2 before h.10.
bool natural_less(std::string_view a, std::string_view b);

// Merges paths that differ only in numbers: h.0.ln_1, h.1.ln_1, ln_f -> h.{0..1}.ln_1, ln_f.
std::vector<std::string> compress_paths(const std::vector<std::string>& paths);

// Returns at most `limit` candidates, the nearest to `text` first. `{0..11}` in a candidate counts as `*`.
std::vector<std::string> nearest_names(std::string_view text, const std::vector<std::string>& candidates,
                                       size_t limit = 3);

}  // namespace weft::plan
