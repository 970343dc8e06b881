#include "optim/rules.hpp"

#include "base/text.hpp"
#include "dispatch/operators.hpp"
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
    check_switches(*this, options, {"nesterov"});
    if (options.at("nesterov") != 0 && (options.at("momentum") == 0 || options.at("dampening") != 0)) {
      fail(WEFT_INVALID_ARGUMENT,
           "optimizer sgd: nesterov needs a momentum above 0 and no dampening; momentum is {}, dampening {}",
           options.at("momentum"), options.at("dampening"));
    }
  }

  std::vector<StateInfo> states(const Hyper& options, at::IntArrayRef) const override {
    if (options.at("momentum") == 0) return {};
    return {{"momentum_buffer"}};
  }

  bool runs_on(const at::Tensor& value) const override { return has_kernel<operators::Sgd>(value); }
  bool takes_half_gradients() const override { return true; }
  bool fills_working() const override { return true; }
  bool takes_decisions() const override { return true; }

  void update(int, UpdateBatch& batch, device::Reading&) const override {
    const Hyper& options = batch.options;
    const double momentum = options.at("momentum");
    std::vector<std::string> states;
    if (momentum != 0) states.emplace_back("momentum_buffer");
    for (const Lists& part : group(*this, batch, states))
      call<operators::Sgd>(part.values, part.gradients,
                           momentum != 0 ? part.states[0] : std::vector<at::Tensor>(), part.working,
                           options.at("lr"), momentum, options.at("dampening"), options.at("weight_decay"),
                           options.at("nesterov") != 0, part.first, batch.factor, batch.decision);
  }
};

}  // namespace

std::shared_ptr<const Rule> sgd_rule() {
  return std::make_shared<Sgd>();
}

}  // namespace weft::optim
