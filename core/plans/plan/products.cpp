#include "plan/products.hpp"

#include <algorithm>
#include <string_view>

namespace weft::plan {

namespace {

bool is_linear(const Node& node) {
  return node.kind == "Linear" || node.kind == "Conv1D";
}

// Returns the weight of a linear layer; null if it has none.
const ParameterShape* weight_of(const Node& node) {
  const auto found = std::find_if(node.params.begin(), node.params.end(),
                                  [](const ParameterShape& param) { return param.shape.size() == 2; });
  return found == node.params.end() ? nullptr : &*found;
}

// Returns the value of the first attribute whose name ends with `end`, or `otherwise`. Families name them
// differently, and the heads of queries before those of keys.
int64_t attribute(const Node& node, std::string_view end, int64_t otherwise) {
  for (const DividableAttribute& of : node.attributes)
    if (of.name.ends_with(end)) return of.value;
  return otherwise;
}

// Returns heads times channels of a head of the queries. The linear layers in an attention layer make
// queries, keys and values, in one layer or three, and the last of two or four the output.
std::optional<int64_t> attention_channels(const Node& attention, const ModelDescription& model) {
  std::vector<int64_t> outputs;
  for (const Node& node : model.nodes) {
    if (!is_linear(node) || !node.path.starts_with(attention.path + ".")) continue;
    const ParameterShape* const weight = weight_of(node);
    if (weight == nullptr) return std::nullopt;
    outputs.push_back(weight->shape[node.kind == "Linear" ? 0 : 1]);
  }
  if (outputs.size() % 2 == 0 && !outputs.empty()) outputs.pop_back();
  const int64_t heads = attribute(attention, "heads", 0),
                key_heads = attribute(attention, "key_value_heads", heads);
  if ((outputs.size() != 1 && outputs.size() != 3) || heads < 1) return std::nullopt;
  int64_t channels = 0;
  for (const int64_t output : outputs) channels += output;
  const int64_t all_heads = heads + 2 * key_heads;
  return channels % all_heads == 0 ? std::optional(channels / all_heads * heads) : std::nullopt;
}

}  // namespace

std::optional<Products> count_products(const ModelDescription& model) {
  Products products;
  for (const Node& node : model.nodes) {
    if (node.added) return std::nullopt;
    if (node.kind == "Attention") {
      const std::optional<int64_t> channels = attention_channels(node, model);
      if (!channels) return std::nullopt;
      products.attention_channels += *channels;
    }
    const ParameterShape* const weight = weight_of(node);
    if (is_linear(node) && weight != nullptr)
      products.weights += num_elements(weight->shape);
    else if (node.kind != "Embedding" &&
             std::any_of(node.params.begin(), node.params.end(),
                         [](const ParameterShape& param) { return param.shape.size() > 1; }))
      return std::nullopt;
  }
  return products;
}

double operations_per_token(const Products& products, int64_t positions) {
  return 6 * static_cast<double>(products.weights) +
         12 * static_cast<double>(products.attention_channels) * static_cast<double>(positions);
}

}  // namespace weft::plan
