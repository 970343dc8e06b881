// The base class of operations of tier stable in C++, and a macro that defines the plugin. Contracts:
// weft/operation.h.
//   class Mine final : public weft::plugin::LinearOperation { ... }; WEFT_LINEAR_OPERATION(Mine)
#pragma once

#ifndef WEFT_TORCH_MIN
#error "weft/torch/operation.hpp is for tier stable; operations of tier native: weft/define_operations.hpp"
#endif

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "../define_plugin.h"
#include "../operation.h"
#include "guard.hpp"
#include "options.hpp"

namespace weft::plugin {
inline namespace v0 {

// An attribute of an operation. See weft_attribute_rule.
struct AttributeRule {
  std::string key;
  std::variant<bool, int64_t, double, std::string> standard;  // the default value
  std::string documentation;
  int64_t minimum = 0;
  std::string adapter_key = "";
};

// A parameter that an operation adds to a layer. See weft_added_parameter.
struct AddedParameter {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<uint32_t> along;  // WEFT_ALONG_* of each dimension
  uint32_t initial = WEFT_INITIAL_CONSTANT;
  double first = 0, second = 0;
};

// A tensor that a function stores for the host, if it is needed.
class Output {
 public:
  explicit Output(weft_at_tensor* place) : place_(place) {}
  bool is_needed() const { return place_ != nullptr; }
  // Stores a new tensor. Does nothing if none is needed.
  void set(const Tensor& tensor) const {
    if (is_needed())
      TORCH_ERROR_CODE_CHECK(
          aoti_torch_assign_tensors(tensor.get(), reinterpret_cast<AtenTensorHandle>(place_)));
  }

 private:
  weft_at_tensor* place_;
};

// One use of a layer. See weft_linear_call.
struct LinearCall {
  explicit LinearCall(const weft_linear_call& call)
      : attributes(call.attributes, call.num_attributes),
        input(tensor(call.input)),
        weight(tensor(call.weight)),
        saved_(call.saved) {
    if (call.bias != nullptr) bias = tensor(call.bias);
    for (uint64_t i = 0; i < call.num_parameters; ++i) parameters.push_back(tensor(call.parameters[i]));
  }
  // Keeps a tensor for backward, which gets it there; `index` is less than num_saved.
  void save(size_t index, const Tensor& value) const { Output(saved_[index]).set(value); }
  Tensor saved(size_t index) const { return tensor(saved_[index]); }

  Options attributes;
  Tensor input, weight, bias;      // bias may be undefined
  std::vector<Tensor> parameters;  // that the operation has added

 private:
  weft_at_tensor* const* saved_;
};

// The gradients that backward stores.
struct LinearGradients {
  LinearGradients(const weft_linear_gradients& gradients, uint64_t num_parameters)
      : input(gradients.input), weight(gradients.weight), bias(gradients.bias) {
    for (uint64_t i = 0; i < num_parameters; ++i) parameters.emplace_back(gradients.parameters[i]);
  }
  Output input, weight, bias;
  std::vector<Output> parameters;
};

// The base class of operations. Its members and virtual functions are those of weft_operation. Calls come
// from several threads.
class LinearOperation {
 public:
  virtual ~LinearOperation() = default;
  // Returns the parameters that the operation adds to a layer with these features.
  virtual std::vector<AddedParameter> parameters(const Options& /*attributes*/, int64_t /*inputs*/,
                                                 int64_t /*outputs*/) const {
    return {};
  }
  virtual Tensor forward(const LinearCall& call) const = 0;
  virtual void backward(const LinearCall& call, const Tensor& output_gradient,
                        const LinearGradients& gradients) const = 0;

  std::string id;  // "vendor.name/revision"
  std::string documentation;
  uint32_t flags = 0;  // WEFT_OPERATION_*
  uint32_t num_saved = 0;
  std::vector<AttributeRule> attributes;
  std::string adapter_config;  // not empty if the operation adds parameters
};

// Makes the weft_operation of one LinearOperation, which must outlive it.
class OperationTable {
 public:
  explicit OperationTable(const LinearOperation& operation) : operation_(operation) {
    for (const AttributeRule& rule : operation.attributes) rules_.push_back(rule_of(rule));
    for (const weft_attribute_rule& rule : rules_) pointers_.push_back(&rule);
    table_ = {sizeof(weft_operation),
              this,
              str(operation.documentation),
              operation.flags,
              operation.num_saved,
              pointers_.data(),
              pointers_.size(),
              str(operation.adapter_config),
              operation.adapter_config.empty() ? nullptr : &add_parameters,
              &forward,
              &backward};
  }
  OperationTable(const OperationTable&) = delete;
  const weft_operation* get() const { return &table_; }

 private:
  static const LinearOperation& self(const weft_operation* table) {
    return static_cast<const OperationTable*>(table->context)->operation_;
  }

  static weft_attribute_rule rule_of(const AttributeRule& rule) {
    weft_attribute_rule out = {};
    out.struct_size = sizeof(out);
    out.standard.key = str(rule.key);
    if (const auto* flag = std::get_if<bool>(&rule.standard)) {
      out.standard.kind = WEFT_KIND_BOOL;
      out.standard.integer = *flag ? 1 : 0;
    } else if (const auto* integer = std::get_if<int64_t>(&rule.standard)) {
      out.standard.kind = WEFT_KIND_INT;
      out.standard.integer = *integer;
    } else if (const auto* real = std::get_if<double>(&rule.standard)) {
      out.standard.kind = WEFT_KIND_FLOAT;
      out.standard.real = *real;
    } else {
      out.standard.kind = WEFT_KIND_TEXT;
      out.standard.text = str(std::get<std::string>(rule.standard));
    }
    out.documentation = str(rule.documentation);
    out.minimum = rule.minimum;
    out.adapter_key = str(rule.adapter_key);
    return out;
  }

  static weft_status add_parameters(const weft_operation* table, const weft_kv* attributes,
                                    uint64_t num_attributes, int64_t inputs, int64_t outputs,
                                    const weft_added_parameter_sink* sink, weft_error* error) noexcept {
    return guard(error, [&] {
      for (const AddedParameter& added :
           self(table).parameters(Options(attributes, num_attributes), inputs, outputs)) {
        if (added.shape.empty() || added.shape.size() > 2 || added.along.size() != added.shape.size())
          throw Error(WEFT_INVALID_ARGUMENT,
                      added.name + ": an added parameter has 1 or 2 dimensions, each with its WEFT_ALONG_*");
        weft_added_parameter out = {};
        out.struct_size = sizeof(out);
        out.name = str(added.name);
        out.ndim = static_cast<uint32_t>(added.shape.size());
        out.initial = added.initial;
        out.first = added.first;
        out.second = added.second;
        for (size_t i = 0; i < added.shape.size(); ++i) {
          out.shape[i] = added.shape[i];
          out.along[i] = added.along[i];
        }
        check(sink->add(sink->context, &out, current_error));
      }
    });
  }

  static weft_status forward(const weft_operation* table, const weft_linear_call* call,
                             weft_at_tensor* output, weft_error* error) noexcept {
    return guard(error, [&] { Output(output).set(self(table).forward(LinearCall(*call))); });
  }

  static weft_status backward(const weft_operation* table, const weft_linear_call* call,
                              const weft_at_tensor* output_gradient, const weft_linear_gradients* gradients,
                              weft_error* error) noexcept {
    return guard(error, [&] {
      self(table).backward(LinearCall(*call), tensor(output_gradient),
                           LinearGradients(*gradients, call->num_parameters));
    });
  }

  const LinearOperation& operation_;
  std::vector<weft_attribute_rule> rules_;
  std::vector<const weft_attribute_rule*> pointers_;
  weft_operation table_ = {};
};

// Returns the table of the only T of the plugin if `id` is its id.
template <class T>
const weft_operation* find_operation(weft_str id) {
  static const T operation;
  static const OperationTable table(operation);
  return text(id) == operation.id ? table.get() : nullptr;
}

}  // namespace v0
}  // namespace weft::plugin

// Defines a plugin with one operation. Its id and version come from plugin.json through weft_add_plugin().
#define WEFT_LINEAR_OPERATION(T)                                                                 \
  static const weft_operation* weft_find_operation(const weft_operation_factory*, weft_str id) { \
    return weft::plugin::find_operation<T>(id);                                                  \
  }                                                                                              \
  static const weft_operation_factory weft_operations = {sizeof(weft_operation_factory),         \
                                                         weft_find_operation};                   \
  static const weft_host* weft_host_of_plugin();                                                 \
  static const void* weft_find_factory(const weft_plugin*, weft_str id) {                        \
    if (weft::plugin::text(id) != WEFT_FACTORY_OPERATION) return nullptr;                        \
    weft::plugin::host.host = weft_host_of_plugin();                                             \
    return &weft_operations;                                                                     \
  }                                                                                              \
  WEFT_DEFINE_PLUGIN(WEFT_TIER_STABLE, "", weft_find_factory)                                    \
  static const weft_host* weft_host_of_plugin() {                                                \
    return weft_plugin_host;                                                                     \
  }
