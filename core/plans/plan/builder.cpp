#include "plan/builder.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error_sink.hpp"
#include "base/json.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "operations/registry.hpp"
#include "plan/problems.hpp"
#include "sequence_modes/sequence_mode.hpp"

using weft::plan::Attribute;
using weft::plan::ConfigView;
using weft::plan::ModelDescription;
using weft::plan::Node;
using weft::plan::Recording;

// The types behind the opaque pointers of the C table.
struct weft_model_description {
  const ModelDescription& model;
  const std::vector<size_t>& order;
  const ConfigView& config;
  Recording& recording;
};

struct weft_plan {
  Recording recording;
  size_t num_calls = 0;
  std::string place;
};

namespace weft::plan {

using weft::borrow;

namespace {

constexpr size_t kMostCalls = 100'000;  // ends a policy that loops forever
constexpr size_t kMostAttributes = 64;
constexpr size_t kMostBytes = 64 << 10;

std::string copy(weft_str text, const char* what) {
  if (text.size > kMostBytes)
    fail(WEFT_INVALID_ARGUMENT, "{} has {} bytes, at most {} may be", what, text.size, kMostBytes);
  if (text.size > 0 && text.data == nullptr) fail(WEFT_INVALID_ARGUMENT, "{} has a size, but no data", what);
  return std::string(view(text));
}

Attribute copy(const weft_kv& kv) {
  if (kv.kind == WEFT_KIND_NONE || kv.kind > WEFT_KIND_JSON) {
    fail(WEFT_INVALID_ARGUMENT, "an attribute has the kind {}, which is no WEFT_KIND_*", kv.kind);
  }
  Attribute attribute = {.key = copy(kv.key, "the key of an attribute"), .kind = kv.kind};
  if (kv.kind == WEFT_KIND_BOOL) attribute.integer = kv.integer != 0;
  if (kv.kind == WEFT_KIND_INT) attribute.integer = kv.integer;
  if (kv.kind == WEFT_KIND_FLOAT) attribute.real = kv.real;
  if (kv.kind == WEFT_KIND_TEXT || kv.kind == WEFT_KIND_JSON)
    attribute.text = copy(kv.text, "the text of an attribute");
  return attribute;
}

// Runs the body of one call of the policy. An error becomes a problem of the recording and the policy
// continues, so that all problems are reported together. Only too many calls stop it.
template <class Body>
weft_status call(weft_plan* plan, const char* slot, weft_error* error, const Body& body) noexcept {
  return guarded(error, [&] {
    if (plan == nullptr) fail(WEFT_INVALID_ARGUMENT, "{}: the plan is NULL; pass plan->plan", slot);
    if (++plan->num_calls > kMostCalls) {
      fail(WEFT_RESOURCE_EXHAUSTED, "{}: more than {} calls; does the policy end?", slot, kMostCalls);
    }
    try {
      body(plan->recording);
    } catch (const Error& problem) {
      plan->recording.problems.push_back(placed(plan->place, fmt::format("{}: {}", slot, problem.what())));
    }
  });
}

weft_status replace(weft_plan* plan, weft_str pattern, weft_str operation, const weft_kv* attributes,
                    uint64_t num_attributes, weft_error* error) {
  return call(plan, "replace", error, [&](Recording& recording) {
    Recording::Replace entry = {
        copy(pattern, "the pattern"), copy(operation, "the operation"), {}, plan->place};
    if (num_attributes > kMostAttributes) {
      fail(WEFT_INVALID_ARGUMENT, "\"{}\" has {} attributes, at most {} may be", printable(entry.pattern),
           num_attributes, kMostAttributes);
    }
    if (num_attributes > 0 && attributes == nullptr) {
      fail(WEFT_INVALID_ARGUMENT, "\"{}\" has {} attributes at NULL", printable(entry.pattern),
           num_attributes);
    }
    for (uint64_t i = 0; i < num_attributes; ++i) entry.attributes.push_back(copy(attributes[i]));
    recording.replaces.push_back(std::move(entry));
  });
}

weft_status divide(weft_plan* plan, weft_str pattern, weft_str attribute, int64_t by, weft_error* error) {
  return call(plan, "divide", error, [&](Recording& recording) {
    recording.divides.push_back(
        {copy(pattern, "the pattern"), copy(attribute, "the attribute"), by, plan->place});
  });
}

weft_status tie(weft_plan* plan, weft_str first, weft_str second, weft_error* error) {
  return call(plan, "tie", error, [&](Recording& recording) {
    recording.ties.push_back({{copy(first, "the first name"), copy(second, "the second name")}, plan->place});
  });
}

weft_status require_divides(weft_plan* plan, weft_str key, int64_t divisor, weft_error* error) {
  return call(plan, "require_divides", error, [&](Recording& recording) {
    recording.requires_divides.push_back({copy(key, "the key"), divisor, plan->place});
  });
}

weft_status reject(weft_plan* plan, weft_str reason, weft_error* error) {
  return call(plan, "reject", error, [&](Recording& recording) {
    recording.rejections.push_back(placed(plan->place, copy(reason, "the reason")));
  });
}

uint32_t config(const weft_model_description* model, weft_str key, weft_kv* out) {
  const weft_kv* found = model->config.find(view(key));
  if (found && out) *out = *found;
  return found != nullptr;
}

uint64_t num_nodes(const weft_model_description* model) {
  return model->order.size();
}

const Node* node_at(const weft_model_description* model, uint64_t index) {
  return index < model->order.size() ? &model->model.nodes[model->order[index]] : nullptr;
}

// Fills `out` and returns true. Adds a problem if it cannot be filled: a struct without a size would be
// written beyond its end.
template <class T>
bool fill(const weft_model_description* model, const char* name, const T& from, T* out) {
  if (out != nullptr && is_struct_size(out->struct_size)) {
    fill_out(name, from, out);
    return true;
  }
  const std::string problem =
      out == nullptr
          ? fmt::format("{0}: the {0} to fill is NULL", name)
          : fmt::format("{0}: struct_size is {1}; set it to sizeof(weft_{0})", name, out->struct_size);
  add_once(model->recording.problems, problem);
  return false;
}

uint32_t node(const weft_model_description* model, uint64_t index, weft_node* out) {
  const Node* found = node_at(model, index);
  weft_node node = {};
  if (found != nullptr) {
    node.path = borrow(found->path);
    node.kind = borrow(found->kind);
    node.num_params = static_cast<uint32_t>(found->params.size());
  }
  return fill(model, "node", node, out) && found != nullptr;
}

uint32_t node_param(const weft_model_description* model, uint64_t index, uint32_t param,
                    weft_node_param* out) {
  const Node* found = node_at(model, index);
  const bool is_there = found != nullptr && param < found->params.size();
  weft_node_param node_param = {};
  if (is_there) {
    const ParameterShape& shape = found->params[param];
    node_param.name = borrow(shape.name);
    node_param.ndim = static_cast<uint32_t>(shape.shape.size());
    std::copy(shape.shape.begin(), shape.shape.end(), std::begin(node_param.shape));
  }
  return fill(model, "node_param", node_param, out) && is_there;
}

// Reports a broken library as a problem of the plan, because a policy in C cannot catch an exception.
uint32_t has_operation(const weft_model_description* model, weft_str operation) {
  try {
    return find_operation(copy(operation, "the operation")) != nullptr;
  } catch (const std::exception& problem) {
    add_once(model->recording.problems, fmt::format("has_operation: {}", problem.what()));
    return 0;
  }
}

weft_parallel parallel(const ParallelSizes& sizes) {
  weft_parallel given = {};
  given.struct_size = sizeof(given);
  given.tensor_size = sizes.tensor;
  given.sequence_size = sizes.sequence;
  given.pipeline_size = sizes.pipeline;
  given.data_size = sizes.data;
  const SequenceMode& mode = sequence_mode_of(sizes);
  given.head_ranks = sizes.tensor * (mode.divides_heads ? sizes.sequence : 1);
  given.splits_over_tensor_axis = mode.axis == SequenceMode::Axis::kTensor;
  given.splits_over_sequence_axis = sizes.sequence > 1;
  given.parallel_output = sizes.parallel_output;
  if (mode.axis != SequenceMode::Axis::kNone) given.sequence_mode = borrow(mode.name);
  return given;
}

}  // namespace

void set_place(weft_plan* plan, std::string place) {
  plan->place = std::move(place);
}

std::string placed(const std::string& place, const std::string& problem) {
  return place.empty() ? problem : fmt::format("{}: {}", place, problem);
}

Attribute to_attribute(const std::string& key, const nlohmann::json& value) {
  Attribute attribute = {.key = key};
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const bool is_huge = value.is_number_unsigned() && value.get<uint64_t>() > kLargest;
  if (value.is_boolean()) {
    attribute.kind = WEFT_KIND_BOOL;
    attribute.integer = value.get<bool>();
  } else if (value.is_number_integer() && !is_huge) {
    attribute.kind = WEFT_KIND_INT;
    attribute.integer = value.get<int64_t>();
  } else if (value.is_number()) {
    attribute.kind = WEFT_KIND_FLOAT;
    attribute.real = value.get<double>();
  } else if (value.is_string()) {
    attribute.kind = WEFT_KIND_TEXT;
    attribute.text = value.get<std::string>();
  } else {
    attribute.kind = WEFT_KIND_JSON;
    attribute.text = value.dump();
  }
  return attribute;
}

weft_kv borrow(const Attribute& attribute) {
  return {.key = borrow(attribute.key),
          .kind = attribute.kind,
          .flags = 0,
          .integer = attribute.integer,
          .real = attribute.real,
          .text = borrow(attribute.text)};
}

ConfigView::ConfigView(const std::string& config_json) {
  const nlohmann::json object = parse_json(config_json, "the model's configuration");
  if (!object.is_object()) {
    fail(WEFT_INVALID_ARGUMENT, "the model's configuration must be a JSON object, found {}",
         json_kind(object));
  }
  for (const auto& [key, value] : object.items()) {
    if (!value.is_null()) values_.push_back(to_attribute(key, value));
  }
  for (const Attribute& value : values_) views_.push_back(borrow(value));
}

const weft_kv* ConfigView::find(std::string_view key) const {
  const auto found =
      std::find_if(views_.begin(), views_.end(), [&](const weft_kv& kv) { return view(kv.key) == key; });
  return found == views_.end() ? nullptr : &*found;
}

std::vector<std::string> ConfigView::keys() const {
  std::vector<std::string> keys;
  for (const Attribute& value : values_) keys.push_back(value.key);
  return keys;
}

std::vector<std::string> Recording::lines() const {
  std::vector<std::string> lines = problems;
  for (const Replace& entry : replaces) {
    std::string line =
        fmt::format("replace \"{}\" \"{}\"", printable(entry.pattern), printable(entry.operation));
    for (const Attribute& attribute : entry.attributes) {
      line += fmt::format(" {} = {}", printable(attribute.key), value_text(attribute));
    }
    lines.push_back(std::move(line));
  }
  for (const Divide& entry : divides) {
    lines.push_back(fmt::format("divide \"{}\" \"{}\" by {}", printable(entry.pattern),
                                printable(entry.attribute), entry.by));
  }
  for (const Tied& entry : ties) {
    lines.push_back(
        fmt::format("tie \"{}\" \"{}\"", printable(entry.names.first), printable(entry.names.second)));
  }
  for (const Require& entry : requires_divides) {
    lines.push_back(fmt::format("require \"{}\" divides by {}", printable(entry.key), entry.divisor));
  }
  for (const std::string& reason : rejections) lines.push_back("reject: " + printable(reason, 2000));
  if (!refusal.empty()) lines.push_back("refusal: " + refusal);
  std::sort(lines.begin(), lines.end());
  return lines;
}

Recording record(const ModelDescription& model, const std::vector<size_t>& order, const Policy& policy,
                 const ParallelSizes& sizes) {
  const ConfigView configuration(model.config_json);
  weft_plan plan;
  const weft_model_description description = {model, order, configuration, plan.recording};
  const weft_model_view model_view = {.struct_size = sizeof(weft_model_view),
                                      .model = &description,
                                      .architecture = borrow(model.architecture),
                                      .config = config,
                                      .num_nodes = num_nodes,
                                      .node = node,
                                      .node_param = node_param,
                                      .has_operation = has_operation};
  const weft_plan_builder builder = {.struct_size = sizeof(weft_plan_builder),
                                     .plan = &plan,
                                     .replace = replace,
                                     .divide = divide,
                                     .tie = tie,
                                     .require_divides = require_divides,
                                     .reject = reject};
  const weft_parallel axes = parallel(sizes);
  const ErrorSink error;
  const weft_status status = policy.build(borrow(policy.name), &model_view, &axes, &builder, error);
  if (status != WEFT_OK) {
    const std::string text(view(weft_error_text(error)));
    plan.recording.refusal = text.empty()
                                 ? fmt::format("the policy failed with status {} and no text", status)
                                 : printable(text, 2000);
  }
  return std::move(plan.recording);
}

}  // namespace weft::plan
