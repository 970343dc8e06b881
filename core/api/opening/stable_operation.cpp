#include "opening/stable_operation.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "opening/stable_product.hpp"

namespace weft {

namespace {

using nlohmann::json;
using plan::Attributes;
using plan::PlannedNode;
using plan::PlannedParameter;

constexpr uint32_t kMostSaved = 16;
constexpr uint64_t kMostAttributes = 256;

// Parameters of one child that an operation adds to a layer.
class Added final : public nn::Addition {
 public:
  at::Tensor add(const AddedParameter& parameter, at::ScalarType dtype) {
    initial_[parameter.name] = parameter.initial;
    return register_parameter(parameter.name,
                              at::empty(parameter.shape, at::TensorOptions().dtype(dtype).device(at::kMeta)));
  }
  nn::Initial initial(std::string_view parameter) const override {
    return initial_.at(std::string(parameter));
  }

 private:
  std::map<std::string, nn::Initial> initial_;
};

// Which dimension of the weight of a layer has its output features.
size_t output_dim(std::string_view kind) {
  return kind == "Conv1D" ? 1 : 0;
}

std::shared_ptr<const AttributeValues> values_of(const StableOperation& operation,
                                                 const Attributes& attributes) {
  std::vector<plan::Attribute> values;
  for (uint64_t i = 0; i < operation.table.num_attributes; ++i)
    values.push_back(attributes.at(view(operation.table.attributes[i]->standard.key)));
  return std::make_shared<AttributeValues>(std::move(values));
}

void add(const StableOperation& operation, nn::Layer& layer, const Attributes& attributes) {
  auto& linear = dynamic_cast<nn::Linear&>(layer);
  const size_t out = output_dim(linear.kind());
  const auto values = values_of(operation, attributes);
  std::map<std::string, std::shared_ptr<Added>> children;
  std::vector<StableProduct::Slot> slots;
  for (const AddedParameter& parameter :
       added_parameters(operation, *values, linear.weight.size(static_cast<int64_t>(1 - out)),
                        linear.weight.size(static_cast<int64_t>(out)))) {
    std::shared_ptr<Added>& child = children[parameter.child];
    if (child == nullptr) child = linear.register_module(parameter.child, std::make_shared<Added>());
    slots.push_back({parameter.full_name(), child->add(parameter, linear.weight.scalar_type())});
  }
  linear.product = std::make_shared<StableProduct>(operation, values, std::move(slots));
}

bool is_split(const PlannedParameter& weight, size_t dim) {
  const std::vector<Run> whole = {{0, weight.shape[dim]}};
  return std::any_of(weight.cuts.begin(), weight.cuts.end(),
                     [&](const Cut& cut) { return cut.dims[dim] != whole; });
}

// Shards each added parameter along the dimension that runs along features which the layer splits.
void cut(const StableOperation& operation, PlannedNode& node, const plan::CutRequest& request,
         std::vector<std::string>& problems) {
  if (request.sizes.sequence_mode != "whole" && request.sizes.sequence == 1) {
    problems.push_back(
        fmt::format("cannot have {} where tensor-parallel ranks split sequences (split_gather and "
                    "ring compute a layer's product while they gather its input); use all_to_all "
                    "or ring_attn",
                    operation.id));
    return;
  }
  if (request.layer == nullptr) return;
  const auto found =
      std::find_if(request.layer->params.begin(), request.layer->params.end(),
                   [](const PlannedParameter& parameter) { return parameter.name == "weight"; });
  if (found == request.layer->params.end() || found->cuts.empty()) return;
  const PlannedParameter& weight = *found;
  const size_t out = output_dim(node.kind);
  const bool splits_output = is_split(weight, out);
  if (!splits_output && !is_split(weight, 1 - out)) return;
  if ((operation.table.flags &
       (splits_output ? WEFT_OPERATION_SPLITS_OUTPUT : WEFT_OPERATION_SPLITS_INPUT)) == 0) {
    problems.push_back(fmt::format("cannot have {} where its {} features are split over ranks", operation.id,
                                   splits_output ? "output" : "input"));
    return;
  }
  const size_t split_dim = splits_output ? out : 1 - out;
  const uint32_t along = splits_output ? WEFT_ALONG_OUTPUT : WEFT_ALONG_INPUT;
  const auto values = values_of(operation, request.attributes);
  for (const AddedParameter& added :
       added_parameters(operation, *values, weight.shape[1 - out], weight.shape[out])) {
    const auto dim = std::find(added.along.begin(), added.along.end(), along);
    if (dim == added.along.end()) continue;
    for (PlannedParameter& parameter : node.params) {
      if (parameter.name != added.full_name()) continue;
      parameter.partition_axes = weight.partition_axes;
      for (const Cut& of_weight : weight.cuts)
        parameter.cuts.push_back(Cut::along(parameter.shape, static_cast<size_t>(dim - added.along.begin()),
                                            of_weight.dims[split_dim]));
    }
  }
}

// In a split layer each rank computes a part of the gradient of the elements that several ranks hold, which
// is summed.
void install(const StableOperation& operation, Site& site, const Attributes& attributes) {
  auto& linear = site.layer<nn::Linear>();
  if (operation.table.parameters == nullptr) {
    site.set(linear.product, std::make_shared<StableProduct>(operation, values_of(operation, attributes),
                                                             std::vector<StableProduct::Slot>()));
    return;
  }
  auto& product = dynamic_cast<StableProduct&>(*linear.product);
  if (!site.is_split()) return;
  for (StableProduct::Slot& slot : product.slots) site.set(slot.summed, site.summed_gradient(slot.name));
}

// adapter_config.json: what the operation says, its attributes, and what PEFT needs to know of the layers.
std::string configuration(const StableOperation& operation, const Attributes& attributes,
                          const std::vector<PlannedNode>& layers) {
  json config = json::parse(view(operation.table.adapter_config));
  for (uint64_t i = 0; i < operation.table.num_attributes; ++i) {
    const weft_attribute_rule& rule = *operation.table.attributes[i];
    if (rule.adapter_key.size == 0) continue;
    const plan::Attribute& value = attributes.at(view(rule.standard.key));
    json& out = config[std::string(view(rule.adapter_key))];
    if (value.kind == WEFT_KIND_BOOL) out = value.integer != 0;
    if (value.kind == WEFT_KIND_INT) out = value.integer;
    if (value.kind == WEFT_KIND_FLOAT) out = value.real;
    if (value.kind == WEFT_KIND_TEXT) out = value.text;
  }
  config["fan_in_fan_out"] = std::all_of(layers.begin(), layers.end(),
                                         [](const PlannedNode& layer) { return layer.kind == "Conv1D"; });
  config["inference_mode"] = true;
  config["target_modules"] = json::array();
  for (const PlannedNode& layer : layers) config["target_modules"].push_back(layer.path);
  return config.dump(2) + "\n";
}

std::vector<plan::AttributeRule> rules_of(const StableOperation& operation) {
  const weft_operation& table = operation.table;
  std::vector<plan::AttributeRule> rules;
  for (uint64_t i = 0; i < table.num_attributes; ++i) {
    const weft_attribute_rule* const rule = table.attributes[i];
    const uint64_t size = rule == nullptr ? 0 : rule->struct_size;
    if (!is_struct_size(size, WEFT_END_OF(weft_attribute_rule, adapter_key)) ||
        rule->standard.kind < WEFT_KIND_BOOL || rule->standard.kind > WEFT_KIND_TEXT)
      fail(WEFT_FAILED_PRECONDITION,
           "operation {} ({}): attribute {} has struct_size {} and kind {}, must be a weft_attribute_rule "
           "with "
           "a BOOL, INT, FLOAT or TEXT",
           operation.id, operation.library, i, size, rule == nullptr ? 0 : rule->standard.kind);
    const weft_kv& standard = rule->standard;
    rules.push_back({{std::string(view(standard.key)), standard.kind, standard.integer, standard.real,
                      std::string(view(standard.text))},
                     std::string(view(rule->documentation)),
                     {},
                     rule->minimum});
  }
  std::sort(rules.begin(), rules.end(), [](const plan::AttributeRule& a, const plan::AttributeRule& b) {
    return a.standard.key < b.standard.key;
  });
  return rules;
}

void check(const StableOperation& operation) {
  const weft_operation& table = operation.table;
  const auto wrong = [&](const std::string& what) {
    fail(WEFT_FAILED_PRECONDITION, "operation {} ({}): {}", operation.id, operation.library, what);
  };
  if (!is_struct_size(table.struct_size, WEFT_END_OF(weft_operation, backward)))
    wrong(fmt::format("its table has struct_size {}; set it to sizeof(weft_operation)", table.struct_size));
  if (table.forward == nullptr || table.backward == nullptr) wrong("its table has no forward or no backward");
  if (table.documentation.size == 0) wrong("it has no documentation");
  if (table.num_saved > kMostSaved)
    wrong(fmt::format("num_saved is {}, must be at most {}", table.num_saved, kMostSaved));
  if (table.num_attributes > kMostAttributes)
    wrong(fmt::format("it has {} attributes, must have at most {}", table.num_attributes, kMostAttributes));
  if ((table.parameters == nullptr) != (table.adapter_config.size == 0))
    wrong("adapter_config and `parameters` belong together: set both, or none");
  if (table.parameters != nullptr &&
      !parse_json(view(table.adapter_config), "its adapter_config").is_object())
    wrong("adapter_config is no JSON object");
}

}  // namespace

plan::Operation stable_operation(const weft_operation& table, std::string_view id,
                                 const std::string& library) {
  static std::mutex mutex;
  static auto* const all = new std::deque<StableOperation>;  // never destroyed: layers refer to them
  const StableOperation checked = {table, std::string(id), library};
  check(checked);
  const std::lock_guard lock(mutex);
  const StableOperation& own = all->emplace_back(checked);
  plan::Operation operation;
  operation.id = id;
  operation.documentation = view(table.documentation);
  operation.kinds = {"Conv1D", "Linear"};
  operation.attributes = rules_of(own);
  operation.install = [&own](Site& site, const Attributes& attributes) { install(own, site, attributes); };
  if (table.parameters == nullptr) return operation;
  operation.keeps = "of the added parameters what the layer's split requires";
  operation.transfers = {{plan::Transfer::Kind::kSharedGradients}};
  operation.cut = [&own](PlannedNode& node, const plan::CutRequest& request,
                         std::vector<std::string>& problems) { cut(own, node, request, problems); };
  operation.add = [&own](nn::Layer& layer, const Attributes& attributes) { add(own, layer, attributes); };
  operation.configuration = [&own](const Attributes& attributes, const std::vector<PlannedNode>& layers) {
    return configuration(own, attributes, layers);
  };
  return operation;
}

}  // namespace weft
