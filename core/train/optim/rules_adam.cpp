#include "optim/rules.hpp"

#include <limits>

#include "base/text.hpp"
#include "dispatch/operators.hpp"
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

  bool runs_on(const at::Tensor& value) const override { return has_kernel<operators::Adam>(value); }
  bool takes_half_gradients() const override { return true; }
  bool fills_working() const override { return true; }
  bool takes_decisions() const override { return true; }

  void update(int, UpdateBatch& batch, device::Reading&) const override {
    apply(batch, static_cast<double>(batch.step), decoupled_);
  }

 protected:
  // `step` determines the bias correction.
  void apply(UpdateBatch& batch, double step, bool decoupled) const {
    const Hyper& options = batch.options;
    for (const Lists& part : group(*this, batch, {"exp_avg", "exp_avg_sq"}))
      call<operators::Adam>(part.values, part.gradients, part.states[0], part.states[1], part.working, step,
                            options.at("lr"), options.at("beta1"), options.at("beta2"), options.at("eps"),
                            options.at("weight_decay"), decoupled, batch.factor, batch.decision);
  }

 private:
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

  void update(int, UpdateBatch& batch, device::Reading&) const override {
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
