#include "optim/rules_lion.hpp"

#include <ATen/Dispatch.h>

#include "cpu/update_rules.hpp"
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

  void update(int, UpdateBatch& batch) const override {
    const Hyper& given = batch.options;
    const kernels::LionOptions options{given.at("lr"), given.at("beta1"), given.at("beta2"),
                                       given.at("weight_decay"), batch.factor};
    for (Slice& slice : batch.slices) {
      prepare(*this, slice, {"exp_avg"});
      AT_DISPATCH_FLOATING_TYPES(slice.value.scalar_type(), "lion", [&] {
        kernels::lion(slice.value.numel(), slice.value.data_ptr<scalar_t>(),
                      slice.gradient.data_ptr<scalar_t>(), slice.state->at("exp_avg").data_ptr<scalar_t>(),
                      options);
      });
    }
  }
};

}  // namespace

std::shared_ptr<const Rule> lion_rule() {
  return std::make_shared<Lion>();
}

}  // namespace weft::optim
