// The description of a model that a shard policy reads: plain data, without tensors or libtorch.
#pragma once

#include <cstdint>
#include <functional>
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
  // Returns an integer that a plan may divide ("num_heads"), empty if the module has none of that name. May
  // be null.
  std::function<std::optional<int64_t>(std::string_view)> attribute;
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

// Returns true if `a` comes before `b` when numbers are compared by value: h.2 before h.10.
bool natural_less(std::string_view a, std::string_view b);

// Merges paths that differ only in numbers: h.0.ln_1, h.1.ln_1, ln_f -> h.{0..1}.ln_1, ln_f.
std::vector<std::string> compress_paths(const std::vector<std::string>& paths);

// Returns at most `limit` candidates, the nearest to `text` first. `{0..11}` in a candidate counts as `*`.
std::vector<std::string> nearest_names(std::string_view text, const std::vector<std::string>& candidates,
                                       size_t limit = 3);

}  // namespace weft::plan
