#include "weft/nn/head.hpp"

#include <ATen/ops/gather.h>

namespace weft::nn {

namespace {

class BaseHead final : public Head {
 public:
  void forward(const Finish& finish, State& state) const override {
    state.set("last_hidden_state", finish(take(state, kHidden)));
  }
};

}  // namespace

std::unique_ptr<Head> make_base_head() {
  return std::make_unique<BaseHead>();
}

at::Tensor select_positions(const at::Tensor& x, const at::Tensor& positions) {
  std::vector<int64_t> shape = positions.sizes().vec();
  shape.insert(shape.end(), {1, x.size(-1)});
  return x.gather(-2, positions.unsqueeze(-1).unsqueeze(-1).expand(shape)).squeeze(-2);
}

at::Tensor take(State& state, std::string_view name) {
  at::Tensor field = state.at(name);
  state.erase(name);
  return field;
}

at::Tensor find_or_undefined(const State& state, std::string_view name) {
  const at::Tensor* field = state.find(name);
  return field ? *field : at::Tensor();
}

}  // namespace weft::nn
