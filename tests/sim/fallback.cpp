#include "sim/fallback.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "sim/device_work.hpp"
#include "sim/sim_device.hpp"

namespace weft::sim {

namespace {

bool takes_generator(const c10::Argument& argument) {
  c10::TypePtr type = argument.type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::GeneratorType;
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Lends the state of a device's generator to the default one of the host while an operator runs that takes no
// generator, such as dropout.
class LentState {
 public:
  explicit LentState(c10::DeviceIndex index)
      : host_(at::detail::getDefaultCPUGenerator()),
        device_(default_host_generator(index)),
        before_(host_.get_state()) {
    host_.set_state(device_.get_state());
  }
  ~LentState() {
    device_.set_state(host_.get_state());
    host_.set_state(before_);
  }
  LentState(const LentState&) = delete;

 private:
  static inline std::mutex mutex;
  const std::lock_guard<std::mutex> lock_{mutex};
  at::Generator host_, device_;
  const at::Tensor before_;
};

// An operator on its way through the CPU.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), stack_(stack), name_(toString(op.operator_name())), view_(name_) {}

  // Returns whether the device did something.
  bool run() {
    to_cpu();
    TORCH_CHECK(device_, name_, ": no argument is on a sim device");
    const c10::DeviceGuard guard(*device_);
    settle(accesses_);
    {
      std::optional<LentState> random;
      if (op_.hasTag(at::Tag::nondeterministic_seeded) && !has_generator_) random.emplace(device_->index());
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    }
    return_resized();
    return_outputs();
    if (is_view()) return false;
    const c10::Stream stream = current_stream(device_->index());
    launch(name_, stream, accesses_);
    if (waits_for_values()) count_host_wait(stream);
    return true;
  }

 private:
  // Returns whether the outputs are views, for which no device does anything.
  bool is_view() const {
    const auto& returns = op_.schema().returns();
    return !returns.empty() && std::all_of(returns.begin(), returns.end(), [](const c10::Argument& output) {
      return output.alias_info() != nullptr && !output.alias_info()->isWrite();
    });
  }

  // Returns whether the host must know values to go on. Indexing must know how many elements a mask has.
  bool waits_for_values() const {
    if (takes_indices_) return takes_mask_;
    return op_.hasTag(at::Tag::data_dependent_output) || op_.hasTag(at::Tag::dynamic_output_shape);
  }

  at::Tensor argument_on_cpu(const at::Tensor& tensor, bool write, bool is_index = false) {
    if (!tensor.defined()) return tensor;
    if (is_index && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte))
      takes_mask_ = true;
    if (!is_on_device(tensor)) {
      TORCH_CHECK(tensor.dim() == 0 || is_index, name_, ": a tensor of shape ", tensor.sizes(), " is on ",
                  tensor.device(), ", must be on a sim device as the others");
      return tensor;
    }
    TORCH_CHECK(!device_ || *device_ == tensor.device(), name_, ": tensors are on ", *device_, " and on ",
                tensor.device());
    device_ = tensor.device();
    accesses_.push_back({tensor, write});
    at::Tensor alias = view_.of(tensor);
    originals_.emplace_back(alias, tensor);
    return alias;
  }

  void to_cpu() {
    const auto& arguments = op_.schema().arguments();
    const size_t first = stack_->size() - arguments.size();
    std::optional<size_t> generator;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const bool write = writes(arguments[i]);
      c10::IValue& slot = (*stack_)[first + i];
      if (slot.isTensor()) {
        slot = argument_on_cpu(slot.toTensor(), write);
      } else if (slot.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : slot.toTensorVector()) list.push_back(argument_on_cpu(tensor, write));
        slot = std::move(list);
      } else if (slot.isOptionalTensorList()) {
        takes_indices_ = true;
        c10::List<std::optional<at::Tensor>> list;
        for (const auto& tensor : slot.toOptionalTensorVector())
          list.push_back(tensor ? std::optional(argument_on_cpu(*tensor, write, true)) : std::nullopt);
        slot = std::move(list);
      } else if (slot.isDevice() && slot.toDevice().is_privateuseone()) {
        const c10::Device asked = slot.toDevice();
        device_ = asked.has_index() ? asked : device(current_device());
        slot = c10::Device(c10::kCPU);
      } else if (takes_generator(arguments[i])) {
        generator = first + i;
      }
    }
    if (generator) lend_generator((*stack_)[*generator]);
  }

  void lend_generator(c10::IValue& slot) {
    has_generator_ = true;
    const c10::Device here = device_.value_or(device(current_device()));
    if (slot.isNone()) {
      slot = default_host_generator(here.index());
      return;
    }
    const at::Generator given = slot.toGenerator();
    TORCH_CHECK(given.device() == here, name_, ": the generator is of ", given.device(), ", must be of ",
                here);
    slot = host_generator(given);
  }

  // Gives arguments that the kernel resized their new shape and memory on the device.
  void return_resized() {
    for (const auto& [alias, original] : originals_) {
      if (alias.sizes() == original.sizes() && alias.strides() == original.strides() &&
          view_.device_storage(alias) != nullptr)
        continue;
      original.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides());
      if (original.storage().nbytes() < alias.storage().nbytes())
        resize_storage(original.storage(), alias.storage().nbytes());
      copy_to(original, alias);
    }
  }

  void copy_to(const at::Tensor& output, const at::Tensor& values) const {
    const at::AutoDispatchBelowADInplaceOrView below;
    HostView(name_).of(output).copy_(values);
  }

  // Returns the device's tensor for an output of the kernel: an argument, a view of one, or a new tensor.
  at::Tensor output_on_device(const at::Tensor& output) {
    if (!output.defined() || is_on_device(output)) return output;
    for (const auto& [alias, original] : originals_)
      if (alias.is_same(output)) return original;
    if (const c10::Storage* const storage = view_.device_storage(output)) {
      at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
          c10::Storage(*storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), output.dtype());
      view.unsafeGetTensorImpl()->set_storage_offset(output.storage_offset());
      view.unsafeGetTensorImpl()->set_sizes_and_strides(output.sizes(), output.strides());
      view._set_conj(output.is_conj());
      view._set_neg(output.is_neg());
      return view;
    }
    at::Tensor made = at::empty_strided(output.sizes(), output.strides(), output.options().device(*device_));
    copy_to(made, output);
    accesses_.push_back({made, true});
    return made;
  }

  void return_outputs() {
    for (size_t i = stack_->size() - op_.schema().returns().size(); i < stack_->size(); ++i) {
      c10::IValue& slot = (*stack_)[i];
      if (slot.isTensor()) {
        slot = output_on_device(slot.toTensor());
      } else if (slot.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : slot.toTensorVector()) list.push_back(output_on_device(tensor));
        slot = std::move(list);
      }
    }
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack* const stack_;
  const std::string name_;
  std::optional<c10::Device> device_;
  HostView view_;
  std::vector<Access> accesses_;
  std::vector<std::pair<at::Tensor, at::Tensor>> originals_;  // CPU tensors and the device's behind them
  bool has_generator_ = false, takes_indices_ = false, takes_mask_ = false;
};

// Gives an output of a graph the values that were computed again.
void write_output(const c10::IValue& output, const c10::IValue& again) {
  const auto write = [](const at::Tensor& to, const at::Tensor& from) {
    if (!to.defined() || to.is_same(from) || to.is_alias_of(from)) return;
    HostView view("graph");
    const at::AutoDispatchBelowADInplaceOrView below;
    view.of(to).copy_(view.of(from));
  };
  if (output.isTensor()) write(output.toTensor(), again.toTensor());
  if (!output.isTensorList()) return;
  const std::vector<at::Tensor> to = output.toTensorVector(), from = again.toTensorVector();
  for (size_t i = 0; i < to.size(); ++i) write(to[i], from[i]);
}

}  // namespace

bool is_on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_privateuseone();
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::internal::lazy_init_num_threads();  // a new thread would otherwise use all cores
  if (!is_capturing()) {
    Call(op, stack).run();
    return;
  }
  const size_t others = stack->size() - op.schema().arguments().size();
  const torch::jit::Stack inputs(stack->begin() + static_cast<std::ptrdiff_t>(others), stack->end());
  if (!Call(op, stack).run()) return;
  const torch::jit::Stack outputs(stack->begin() + static_cast<std::ptrdiff_t>(others), stack->end());
  add_to_graph([op, inputs, outputs] {
    torch::jit::Stack again = inputs;
    Call(op, &again).run();
    for (size_t i = 0; i < outputs.size(); ++i) write_output(outputs[i], again[i]);
  });
}

}  // namespace weft::sim
