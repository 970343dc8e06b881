// What a shard policy may know about a model, as plain data: no tensors, no libtorch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/plan.hpp"

namespace weft::plan {

struct ParameterShape {
  std::string name;  // "weight"
  std::vector<int64_t> shape;
};

// Parameters that an operation has added to a module.
struct AddedParameters {
  std::string operation;
  std::vector<Attribute> attributes;   // all that the operation has
  std::vector<ParameterShape> params;  // "lora_A.weight"
};

// One module. Its path is relative to the base model; heads stand beside that.
struct Node {
  std::string path;                    // "h.0.attn.c_attn"
  std::string kind;                    // "Conv1D"
  std::vector<ParameterShape> params;  // its own, not its children's
  // An integer that a plan may divide ("num_heads"); empty if the module has none of that name. May be null.
  std::function<std::optional<int64_t>(std::string_view)> attribute;
  std::optional<AddedParameters> added = {};
};

// `name` is another name of the parameter `canonical`.
struct TiedNames {
  std::string name;
  std::string canonical;
};

struct ModelDescription {
  std::string architecture;        // of the class, as in config.json's "architectures"
  std::string config_json = "{}";  // an object
  std::vector<Node> nodes;         // in any order, paths are unique
  std::vector<TiedNames> ties;
};

// The order in which people count: h.2 before h.10.
bool natural_less(std::string_view a, std::string_view b);

// Paths that differ in numbers become one: h.0.ln_1, h.1.ln_1, ln_f -> h.{0..1}.ln_1, ln_f.
std::vector<std::string> compress_paths(const std::vector<std::string>& paths);

// At most `limit` of the candidates, the nearest to `text` first; `{0..11}` in a candidate is as near as `*`.
std::vector<std::string> nearest_names(std::string_view text, const std::vector<std::string>& candidates,
                                       size_t limit = 3);

}  // namespace weft::plan
