#include "optim/rules_adam.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>

#include "base/text.hpp"
#include "optim/rules_slices.hpp"

namespace weft::optim {

namespace {

class AdamRule final : public Rule {
 public:
  AdamRule(const char* name, double weight_decay, bool decoupled)
      : name_(name), weight_decay_(weight_decay), decoupled_(decoupled) {}

  std::string name() const override { return name_; }

  Hyper defaults() const override {
    return {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", weight_decay_}};
  }

  void check(const Hyper& options) const override {
    check_at_least_zero(*this, options, {"lr", "eps", "weight_decay"});
    for (const char* name : {"beta1", "beta2"}) {
      const double beta = options.at(name);
      if (!(beta >= 0 && beta < 1)) {
        fail(WEFT_INVALID_ARGUMENT, "optimizer {}: {} is {}, must be at least 0 and below 1", name_, name,
             beta);
      }
    }
  }

  void update(std::vector<Slice>& slices, const Hyper& options, int64_t step, double factor) const override {
    const at::NoGradGuard no_grad;
    // The kernels have a count per tensor; here it is one for all, and they only read it.
    const at::Tensor count = at::full({}, static_cast<double>(step), at::kFloat);
    const auto kernel = decoupled_ ? adamw : adam;
    for (const Grouped& part : group(*this, slices, {"exp_avg", "exp_avg_sq"}, factor)) {
      kernel(part.lists, std::vector<at::Tensor>(part.lists.values.size(), count), options);
    }
  }

 private:
  static void adam(const Lists& lists, const std::vector<at::Tensor>& counts, const Hyper& options) {
    at::_fused_adam_(lists.values, lists.gradients, lists.states[0], lists.states[1], {}, counts,
                     options.at("lr"), options.at("beta1"), options.at("beta2"), options.at("weight_decay"),
                     options.at("eps"),
                     /*amsgrad=*/false, /*maximize=*/false, lists.divisor);
  }

  static void adamw(const Lists& lists, const std::vector<at::Tensor>& counts, const Hyper& options) {
    at::_fused_adamw_(lists.values, lists.gradients, lists.states[0], lists.states[1], {}, counts,
                      options.at("lr"), options.at("beta1"), options.at("beta2"), options.at("weight_decay"),
                      options.at("eps"),
                      /*amsgrad=*/false, /*maximize=*/false, lists.divisor);
  }

  const char* name_;
  double weight_decay_;
  bool decoupled_;
};

}  // namespace

std::shared_ptr<const Rule> adam_rule() {
  return std::make_shared<AdamRule>("adam", 0.0, false);
}

std::shared_ptr<const Rule> adamw_rule() {
  return std::make_shared<AdamRule>("adamw", 0.01, true);
}

}  // namespace weft::optim
