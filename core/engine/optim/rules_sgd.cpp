#include "optim/rules_sgd.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>

#include "base/text.hpp"
#include "optim/rules_slices.hpp"

namespace weft::optim {

namespace {

class Sgd final : public Rule {
 public:
  std::string name() const override { return "sgd"; }

  Hyper defaults() const override {
    return {{"lr", 1e-3}, {"momentum", 0}, {"dampening", 0}, {"weight_decay", 0}, {"nesterov", 0}};
  }

  void check(const Hyper& options) const override {
    check_at_least_zero(*this, options, {"lr", "momentum", "weight_decay"});
    const double nesterov = options.at("nesterov");
    if (nesterov != 0 && nesterov != 1) {
      fail(WEFT_INVALID_ARGUMENT, "optimizer sgd: nesterov is {}, must be 0 or 1", nesterov);
    }
    if (nesterov != 0 && (options.at("momentum") == 0 || options.at("dampening") != 0)) {
      fail(WEFT_INVALID_ARGUMENT,
           "optimizer sgd: nesterov needs a momentum above 0 and no dampening; momentum is {}, dampening {}",
           options.at("momentum"), options.at("dampening"));
    }
  }

  void update(std::vector<Slice>& slices, const Hyper& options, int64_t step, double factor) const override {
    const at::NoGradGuard no_grad;
    const double momentum = options.at("momentum");
    std::vector<std::string> states;
    if (momentum != 0) states.emplace_back("momentum_buffer");
    for (const Grouped& part : group(*this, slices, states, factor)) {
      const Lists& lists = part.lists;
      at::_fused_sgd_(lists.values, lists.gradients,
                      momentum != 0 ? lists.states[0] : std::vector<at::Tensor>(), options.at("weight_decay"),
                      momentum, options.at("lr"), options.at("dampening"), options.at("nesterov") != 0,
                      /*maximize=*/false, part.first, lists.divisor);
    }
  }
};

}  // namespace

std::shared_ptr<const Rule> sgd_rule() {
  return std::make_shared<Sgd>();
}

}  // namespace weft::optim
