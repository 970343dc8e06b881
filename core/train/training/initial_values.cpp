#include "training/initial_values.hpp"

#include <ATen/AccumulateType.h>
#include <ATen/ops/empty.h>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "layers/initialise.hpp"
#include "training/bindings.hpp"
#include "weft/nn/addition.hpp"

namespace weft {

namespace {

at::Tensor whole_on_host(const weft_param& param) {
  // Independent of the dtype in which a strategy keeps its values.
  const at::ScalarType exact = at::toAccumulateType(param.tensor.scalar_type(), /*is_cuda=*/true);
  return at::empty(param.shape, at::TensorOptions().dtype(exact).device(device::kHost));
}

std::string canonical(const nn::Model& model, const std::string& name) {
  for (const nn::Tie& tie : model.ties())
    if (tie.name == name) return tie.canonical;
  return name;
}

}  // namespace

// Who says what a parameter begins with.
struct InitialValues::Owner {
  std::string layer;     // the path of the layer to which an operation has added the parameter, with its dot
  std::string addition;  // the id of this operation
  nn::Initial initial;
};

bool InitialValues::is_computed(const Owner& owner) {
  return owner.initial.kind == nn::Initial::Kind::kOfLayer && !owner.layer.empty();
}

InitialValues::Owner InitialValues::owner_of(const std::string& name) const {
  const torch::nn::Module* module = &model_;
  size_t begin = 0, layer = 0;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
    const auto children = module->named_children();
    const std::shared_ptr<torch::nn::Module>* child = children.find(name.substr(begin, dot - begin));
    if (child == nullptr) return {{}, {}, model_.initial(name)};
    module = child->get();
    layer = begin;
    begin = dot + 1;
  }
  const auto* addition = dynamic_cast<const nn::Addition*>(module);
  if (addition == nullptr) return {{}, {}, model_.initial(name)};
  return {name.substr(0, layer), addition->operation, addition->initial(name.substr(begin))};
}

at::Tensor InitialValues::layer_value(const Owner& owner, const std::string& name, const Computed& of) const {
  const std::string wanted = canonical(model_, owner.layer + name);
  const weft_param* found = nullptr;
  for (const auto& param : params_)
    if (param->name == wanted) found = param.get();
  if (found == nullptr)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the initial values of {} are to be computed from {}, which {} does not have", owner.addition,
         of.param.name, owner.layer + name, model_.architecture());
  for (const Computed* one = &of; one != nullptr; one = one->before)
    if (&one->param == found)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: the initial values of {} are to be computed from those of {}, and these "
           "from the former",
           owner.addition, found->name, of.param.name);
  at::Tensor value = whole_on_host(*found);
  const Box whole = Box::whole(found->shape);
  if (source_ != nullptr && source_->read(found->name, whole, value)) return value;
  const Owner other = owner_of(found->name);
  if (is_computed(other)) return value.copy_(computed(other, {*found, &of}));
  nn::initialise(other.initial, seed_, found->name, found->shape, whole, value);
  return value;
}

at::Tensor InitialValues::computed(const Owner& owner, const Computed& of) const {
  at::Tensor value =
      owner.initial.function([&](const std::string& name) { return layer_value(owner, name, of); });
  const at::IntArrayRef shape = of.param.shape;
  if (!value.defined() || value.sizes() != shape || !value.is_floating_point() || !device::is_on_host(value))
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the function of the initial values of {} returns {}, must return [{}] in a floating dtype on "
         "the host",
         owner.addition, of.param.name,
         value.defined() ? fmt::format("[{}] of {} on {}", fmt::join(value.sizes(), ", "),
                                       c10::toString(value.scalar_type()), value.device().str())
                         : "nothing",
         fmt::join(shape, ", "));
  return value;
}

void InitialValues::read(const weft_param& param, int64_t begin, int64_t count,
                         const at::Tensor& values) const {
  at::Tensor whole;  // computed for the first box, and for none if the source has all
  for_each_box(param.cut, begin, count, values, [&](const Box& box, const at::Tensor& part) {
    if (source_ != nullptr && source_->read(param.name, box, part)) return;
    const Owner owner = owner_of(param.name);
    if (!is_computed(owner)) {
      nn::initialise(owner.initial, seed_, param.name, param.shape, box, part);
      return;
    }
    if (!whole.defined()) whole = computed(owner, {param, nullptr});
    part.copy_(view_of(whole, Box::whole(param.shape), box));
  });
}

}  // namespace weft
