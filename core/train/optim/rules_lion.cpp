#include "optim/rules.hpp"

#include "dispatch/operators.hpp"
#include "optim/rules_slices.hpp"

namespace weft::optim {

namespace {

class Lion final : public Rule {
 public:
  std::string name() const override { return "lion"; }

  Hyper defaults() const override {
    return {{"lr", 1e-4}, {"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0}};
  }

  void check(const Hyper& options) const override {
    check_at_least_zero(*this, options, {"lr", "weight_decay"});
    check_betas(*this, options, {"beta1", "beta2"});
  }

  std::vector<StateInfo> states(const Hyper&, at::IntArrayRef) const override { return {{"exp_avg"}}; }

  bool runs_on(const at::Tensor& value) const override { return has_kernel<operators::Lion>(value); }
  bool takes_decisions() const override { return true; }

  void update(int, UpdateBatch& batch, device::Reading&) const override {
    const Hyper& options = batch.options;
    for (const Lists& part : group(*this, batch, {"exp_avg"}))
      call<operators::Lion>(part.values, part.gradients, part.states[0], options.at("lr"),
                            options.at("beta1"), options.at("beta2"), options.at("weight_decay"),
                            batch.factor, batch.decision);
  }
};

}  // namespace

std::shared_ptr<const Rule> lion_rule() {
  return std::make_shared<Lion>();
}

}  // namespace weft::optim
