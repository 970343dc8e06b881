#include "opening/stable_product.hpp"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "autograd/first_order.hpp"
#include "base/error_sink.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "device/autocast.hpp"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Which operation a node calls, and how its list of inputs is to be read: x, the weight (out, in), the bias
// if there is one, and the added parameters.
struct Use : torch::CustomClassHolder {
  Use(const StableOperation& operation, std::shared_ptr<const AttributeValues> attributes, bool has_bias)
      : operation(operation), attributes(std::move(attributes)), has_bias(has_bias) {}

  size_t first_parameter() const { return has_bias ? 3 : 2; }
  std::string who() const { return fmt::format("operation {} ({})", operation.id, operation.library); }
  [[noreturn]] void wrong(const std::string& what) const {
    fail(WEFT_FAILED_PRECONDITION, "{}: {}", who(), what);
  }

  const StableOperation& operation;
  const std::shared_ptr<const AttributeValues> attributes;
  const bool has_bias;
};

const weft_at_tensor* handle(const at::Tensor& tensor) {
  return reinterpret_cast<const weft_at_tensor*>(&tensor);
}
weft_at_tensor* handle(at::Tensor& tensor) {
  return reinterpret_cast<weft_at_tensor*>(&tensor);
}

// The arguments of one call. Borrows from all that it is made of.
class Call {
 public:
  Call(const Use& use, at::TensorList inputs, std::vector<at::Tensor>& saved) {
    for (size_t i = use.first_parameter(); i < inputs.size(); ++i) parameters_.push_back(handle(inputs[i]));
    for (at::Tensor& tensor : saved) saved_.push_back(handle(tensor));
    call_ = {sizeof(weft_linear_call), use.attributes->data(), use.attributes->size(),
             handle(inputs[0]),        handle(inputs[1]),      use.has_bias ? handle(inputs[2]) : nullptr,
             parameters_.data(),       parameters_.size(),     saved_.data()};
  }
  Call(const Call&) = delete;
  const weft_linear_call* get() const { return &call_; }

 private:
  std::vector<const weft_at_tensor*> parameters_;
  std::vector<weft_at_tensor*> saved_;
  weft_linear_call call_ = {};
};

at::Tensor call_forward(const Use& use, at::TensorList inputs, std::vector<at::Tensor>& saved) {
  saved.resize(use.operation.table.num_saved);
  const Call call(use, inputs, saved);
  at::Tensor output;
  ErrorSink error;
  error.check(use.operation.table.forward(&use.operation.table, call.get(), handle(output), error),
              use.who());
  if (!output.defined()) use.wrong("forward succeeded without an output");
  at::DimVector shape(inputs[0].sizes());
  shape.back() = inputs[1].size(0);
  if (output.sizes() != at::IntArrayRef(shape) || output.scalar_type() != inputs[0].scalar_type() ||
      output.device() != inputs[0].device())
    use.wrong(fmt::format("forward made an output {} of {} on {}, must be {} of {} on {}", output.sizes(),
                          c10::toString(output.scalar_type()), output.device().str(), at::IntArrayRef(shape),
                          c10::toString(inputs[0].scalar_type()), inputs[0].device().str()));
  for (const at::Tensor& input : inputs)
    if (output.is_alias_of(input)) use.wrong("forward made an output that is a part of one of its inputs");
  return output;
}

// The gradients of the inputs that need one, in the order of the inputs.
variable_list call_backward(const Use& use, at::TensorList inputs, std::vector<at::Tensor>& saved,
                            const at::Tensor& output_gradient, const std::vector<bool>& needed) {
  variable_list result(inputs.size());
  std::vector<weft_at_tensor*> places;
  for (size_t i = 0; i < inputs.size(); ++i) places.push_back(needed[i] ? handle(result[i]) : nullptr);
  const Call call(use, inputs, saved);
  const weft_linear_gradients gradients = {sizeof(weft_linear_gradients), places[0], places[1],
                                           use.has_bias ? places[2] : nullptr,
                                           places.data() + use.first_parameter()};
  ErrorSink error;
  const weft_operation& table = use.operation.table;
  error.check(table.backward(&table, call.get(), handle(output_gradient), &gradients, error), use.who());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!needed[i]) continue;
    const auto what = [&] {
      return i == 0                   ? std::string("the input")
             : i == 1                 ? "the weight"
             : use.has_bias && i == 2 ? "the bias"
                                      : fmt::format("added parameter {}", i - use.first_parameter());
    };
    if (!result[i].defined()) use.wrong("backward succeeded without the gradient of " + what());
    if (result[i].sizes() != inputs[i].sizes() || result[i].device() != inputs[i].device())
      use.wrong(fmt::format("backward made a gradient {} of {}, which is {}", result[i].sizes(), what(),
                            inputs[i].sizes()));
  }
  return result;
}

class StableLinear : public torch::autograd::Function<StableLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, at::TensorList inputs,
                            const c10::intrusive_ptr<Use>& use) {
    std::vector<at::Tensor> saved;
    at::Tensor output = call_forward(*use, inputs, saved);
    variable_list kept(inputs.begin(), inputs.end());
    kept.insert(kept.end(), saved.begin(), saved.end());
    context->save_for_backward(std::move(kept));
    context->saved_data["use"] = c10::IValue::make_capsule(use);
    context->saved_data["inputs"] = static_cast<int64_t>(inputs.size());
    context->set_materialize_grads(false);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto use = c10::static_intrusive_pointer_cast<Use>(context->saved_data["use"].toCapsule());
    require_first_order(use->operation.id.c_str());
    const variable_list kept = context->get_saved_variables();
    const auto count = static_cast<size_t>(context->saved_data["inputs"].toInt());
    if (!gradients[0].defined()) return variable_list(count + 1);
    std::vector<at::Tensor> saved(kept.begin() + static_cast<std::ptrdiff_t>(count), kept.end());
    std::vector<bool> needed;
    for (size_t i = 0; i < count; ++i) needed.push_back(context->needs_input_grad(i));
    variable_list result =
        call_backward(*use, at::TensorList(kept).slice(0, count), saved, gradients[0], needed);
    result.emplace_back();  // of `use`
    return result;
  }
};

// Adds one declared parameter to a list.
struct Declared {
  const StableOperation& operation;
  int64_t inputs, outputs;
  std::vector<AddedParameter> parameters;
  std::exception_ptr failure;  // no exception may pass through the frames of the library

  void add(const weft_added_parameter& given) {
    const auto wrong = [&](const std::string& what) {
      fail(WEFT_FAILED_PRECONDITION, "operation {} ({}): parameter \"{}\" {}", operation.id,
           operation.library, printable(view(given.name)), what);
    };
    if (!is_struct_size(given.struct_size, WEFT_END_OF(weft_added_parameter, along)))
      fail(WEFT_FAILED_PRECONDITION, "operation {} ({}): a parameter has struct_size {}; set it to sizeof",
           operation.id, operation.library, given.struct_size);
    AddedParameter added;
    const std::string name(view(given.name));
    const size_t dot = name.find('.');
    if (dot == std::string::npos || dot == 0 || dot + 1 == name.size() ||
        name.find('.', dot + 1) != std::string::npos)
      wrong("must be called CHILD.NAME, like lora_A.weight");
    added.child = name.substr(0, dot);
    added.name = name.substr(dot + 1);
    if (given.ndim < 1 || given.ndim > 2)
      wrong(fmt::format("has {} dimensions, must have 1 or 2", given.ndim));
    for (uint32_t dim = 0; dim < given.ndim; ++dim) {
      const int64_t size = given.shape[dim];
      const uint32_t along = given.along[dim];
      if (size < 1) wrong(fmt::format("has the size {} in dimension {}", size, dim));
      if (along > WEFT_ALONG_OUTPUT) wrong(fmt::format("runs along {}, which is no WEFT_ALONG_*", along));
      const int64_t features = along == WEFT_ALONG_INPUT    ? inputs
                               : along == WEFT_ALONG_OUTPUT ? outputs
                                                            : size;
      if (size != features)
        wrong(fmt::format("has the size {} in dimension {}, which runs along {} features", size, dim,
                          features));
      added.shape.push_back(size);
      added.along.push_back(along);
    }
    if (given.initial == WEFT_INITIAL_CONSTANT)
      added.initial = nn::Initial::constant(given.first);
    else if (given.initial == WEFT_INITIAL_NORMAL)
      added.initial = nn::Initial::normal(given.first, given.second);
    else if (given.initial == WEFT_INITIAL_UNIFORM)
      added.initial = nn::Initial::uniform(given.first, given.second);
    else
      wrong(fmt::format("begins with {}, which is no WEFT_INITIAL_*", given.initial));
    for (const AddedParameter& other : parameters)
      if (other.full_name() == name) wrong("is declared twice");
    parameters.push_back(std::move(added));
  }
};

}  // namespace

AttributeValues::AttributeValues(std::vector<plan::Attribute> attributes)
    : attributes_(std::move(attributes)) {
  for (const plan::Attribute& attribute : attributes_)
    values_.push_back({borrow(attribute.key), attribute.kind, 0, attribute.integer, attribute.real,
                       borrow(attribute.text)});
}

std::vector<AddedParameter> added_parameters(const StableOperation& operation,
                                             const AttributeValues& attributes, int64_t inputs,
                                             int64_t outputs) {
  Declared declared = {operation, inputs, outputs, {}, {}};
  const weft_added_parameter_sink sink = {
      &declared, [](void* context, const weft_added_parameter* parameter, weft_error*) -> weft_status {
        auto& all = *static_cast<Declared*>(context);
        try {
          all.add(*parameter);
          return WEFT_OK;
        } catch (...) {
          if (!all.failure) all.failure = std::current_exception();
          return WEFT_FAILED_PRECONDITION;
        }
      }};
  ErrorSink error;
  const weft_status status = operation.table.parameters(&operation.table, attributes.data(),
                                                        attributes.size(), inputs, outputs, &sink, error);
  if (declared.failure) std::rethrow_exception(declared.failure);
  error.check(status, fmt::format("operation {} ({})", operation.id, operation.library));
  if (declared.parameters.empty())
    fail(WEFT_FAILED_PRECONDITION, "operation {} ({}): it declares no parameter; leave `parameters` NULL",
         operation.id, operation.library);
  return std::move(declared.parameters);
}

at::Tensor StableProduct::forward(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                                  const at::Tensor& bias) const {
  const at::Tensor matrix = device::autocast(weight);
  std::vector<at::Tensor> inputs = {device::autocast(x),
                                    layer.layout == nn::Linear::Layout::kOutIn ? matrix : matrix.t()};
  if (bias.defined()) inputs.push_back(device::autocast(bias));
  for (const Slot& slot : slots)
    inputs.push_back(device::autocast(slot.summed ? slot.summed(slot.parameter) : slot.parameter));
  const auto use = c10::make_intrusive<Use>(operation_, attributes_, bias.defined());
  if (at::GradMode::is_enabled()) return StableLinear::apply(at::TensorList(inputs), use);
  std::vector<at::Tensor> saved;
  return call_forward(*use, inputs, saved);
}

}  // namespace weft
