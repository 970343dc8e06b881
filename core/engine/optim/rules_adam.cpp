#include "optim/rules_adam.hpp"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>

#include <limits>

#include "base/text.hpp"
#include "optim/rules_slices.hpp"

namespace weft::optim {

namespace {

class AdamRule : public Rule {
 public:
  AdamRule(const char* name, double weight_decay, bool decoupled)
      : name_(name), weight_decay_(weight_decay), decoupled_(decoupled) {}

  std::string name() const override { return name_; }

  Hyper defaults() const override {
    return {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", weight_decay_}};
  }

  void check(const Hyper& options) const override {
    check_at_least_zero(*this, options, {"lr", "eps", "weight_decay"});
    check_betas(*this, options, {"beta1", "beta2"});
  }

  std::vector<StateInfo> states(const Hyper&, at::IntArrayRef) const override {
    return {{"exp_avg"}, {"exp_avg_sq"}};
  }

  bool runs_on_every_device() const override { return true; }

  void update(int, UpdateBatch& batch) const override {
    apply(batch, static_cast<double>(batch.step), decoupled_);
  }

 protected:
  // Runs ATen's fused kernel. `step` determines the bias correction.
  void apply(UpdateBatch& batch, double step, bool decoupled) const {
    const Hyper& options = batch.options;
    const auto kernel = decoupled ? adamw : adam;
    for (const Grouped& part : group(*this, batch, {"exp_avg", "exp_avg_sq"})) {
      const at::TensorOptions there = part.lists.values.front().options();
      // The kernel takes a step count for each tensor and only reads it, so all share one.
      const at::Tensor count = at::full({}, step, there.dtype(at::kFloat));
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

// Checks an option of Colossal-AI that can have only one value here.
struct Fixed {
  const char* name;
  double value;
  const char* reason;
};

const std::vector<Fixed> kNvme = {
    {"nvme_offload_fraction", 0, "optimizer states cannot be offloaded to a disk in this version"}};
const std::vector<Fixed> kFused = {
    {"amsgrad", 0, "the AMSGrad variant does not exist, in Colossal-AI neither"},
    {"set_grad_none", 1, "zero_grad lets the strategy decide what becomes of gradients"}};

class ColossalAdam final : public AdamRule {
 public:
  ColossalAdam(const char* name, const std::vector<Fixed>& fixed) : AdamRule(name, 0, true), fixed_(fixed) {}

  Hyper defaults() const override {
    Hyper options = AdamRule::defaults();
    options["bias_correction"] = options["adamw_mode"] = 1;
    for (const Fixed& option : fixed_) options[option.name] = option.value;
    return options;
  }

  void check(const Hyper& options) const override {
    AdamRule::check(options);
    check_switches(*this, options, {"bias_correction", "adamw_mode"});
    for (const Fixed& option : fixed_)
      if (options.at(option.name) != option.value)
        fail(WEFT_UNIMPLEMENTED, "optimizer {}: {} is {}, can only be {}: {}", name(), option.name,
             options.at(option.name), option.value, option.reason);
  }

  void update(int, UpdateBatch& batch) const override {
    // Without bias correction, pass a step count so large that the correction is 1.
    const double step = batch.options.at("bias_correction") != 0 ? static_cast<double>(batch.step)
                                                                 : std::numeric_limits<double>::infinity();
    apply(batch, step, batch.options.at("adamw_mode") != 0);
  }

 private:
  const std::vector<Fixed>& fixed_;
};

}  // namespace

std::shared_ptr<const Rule> adam_rule() {
  return std::make_shared<AdamRule>("adam", 0.0, false);
}
std::shared_ptr<const Rule> adamw_rule() {
  return std::make_shared<AdamRule>("adamw", 0.01, true);
}
std::shared_ptr<const Rule> hybrid_adam_rule() {
  return std::make_shared<ColossalAdam>("hybrid_adam", kNvme);
}
std::shared_ptr<const Rule> cpu_adam_rule() {
  return std::make_shared<ColossalAdam>("cpu_adam", kNvme);
}
std::shared_ptr<const Rule> fused_adam_rule() {
  return std::make_shared<ColossalAdam>("fused_adam", kFused);
}

}  // namespace weft::optim
