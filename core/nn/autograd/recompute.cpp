#include "autograd/recompute.hpp"

#include <torch/csrc/autograd/grad_mode.h>

#include <charconv>

#include "autograd/saved_tensor_hooks.hpp"
#include "base/text.hpp"
#include "device/random.hpp"

namespace weft {

namespace {

int64_t version_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<int64_t>(tensor._version()) : 0;
}

// One recomputed function with its input and what recomputation has saved.
struct Frame {
  std::string name;
  Recomputed function;
  State input;                    // detached
  std::vector<int64_t> versions;  // of the input's fields
  at::Tensor random_state;
  size_t num_saved = 0;
  bool recomputed = false;
  std::vector<at::Tensor> saved;

  void recompute();
};

// Collects the tensors that operations save in the recomputation.
class Collect final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Collect(Frame* frame) : frame_(frame) {}
  void call_pack_hook(const at::Tensor& tensor) override { frame_->saved.push_back(tensor.detach()); }
  at::Tensor call_unpack_hook() override {
    throw Error(WEFT_INTERNAL,
                "the graph of a recomputation was used: backward inside a unit is not supported");
  }

 private:
  Frame* frame_;
};

// Keeps the index of a saved tensor instead of the tensor, in forward.
class Defer final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Defer(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  ~Defer() override {
    if (index_ < frame_->saved.size()) frame_->saved[index_].reset();
  }
  void call_pack_hook(const at::Tensor&) override { index_ = frame_->num_saved++; }
  at::Tensor call_unpack_hook() override {
    if (!frame_->recomputed) frame_->recompute();
    return frame_->saved.at(index_);
  }

 private:
  std::shared_ptr<Frame> frame_;
  size_t index_ = SIZE_MAX;
};

void Frame::recompute() {
  recomputed = true;
  SavedTensorHooks hooks([this] { return std::make_unique<Collect>(this); });
  const device::KeepRandomState kept;
  device::set_random_state(random_state);
  at::AutoGradMode with_gradients(true);
  State state;
  size_t place = 0;
  for (const auto& [field, tensor] : input) {
    if (version_of(tensor) != versions[place++])
      throw Error(WEFT_INVALID_ARGUMENT, name + " changed its field \"" + field +
                                             "\" in place, so it cannot be recomputed; "
                                             "let it make a new tensor");
    if (!tensor.defined()) {
      state.set(field, tensor);
      continue;
    }
    at::Tensor again = tensor.detach();
    again.set_requires_grad(tensor.requires_grad());
    state.set(field, again);
  }
  function(state, true);
  if (saved.size() != num_saved)
    throw Error(WEFT_INTERNAL, "recomputation of " + name + " saved " + std::to_string(saved.size()) +
                                   " tensors, its forward " + std::to_string(num_saved) +
                                   ": it depends on more than its state");
}

}  // namespace

void run_recomputed(const std::string& name, const Recomputed& function, State& state) {
  auto frame = std::make_shared<Frame>();
  frame->name = name;
  frame->function = function;
  for (const auto& [field, tensor] : state) {
    at::Tensor kept = tensor.defined() ? tensor.detach() : tensor;
    if (kept.defined() && tensor.requires_grad()) kept.set_requires_grad(true);
    frame->input.set(field, kept);
    frame->versions.push_back(version_of(kept));
  }
  frame->random_state = device::random_state();
  SavedTensorHooks hooks([frame] { return std::make_unique<Defer>(frame); });
  function(state, false);
}

size_t num_recomputed(const std::string& recompute, size_t num_units) {
  if (recompute == "off") return 0;
  if (recompute == "all") return num_units;
  size_t number = 0;
  const char* const end = recompute.data() + recompute.size();
  const auto [stop, problem] = std::from_chars(recompute.data(), end, number);
  if (problem != std::errc() || stop != end || number > num_units)
    fail(WEFT_INVALID_ARGUMENT, "recompute is \"{}\", must be \"off\", \"all\" or a number of units up to {}",
         recompute, num_units);
  return number;
}

}  // namespace weft
