#include "optim/rules_layerwise.hpp"

#include <ATen/Dispatch.h>

#include <cmath>

#include "base/text.hpp"
#include "cpu/update_rules.hpp"
#include "optim/rules_slices.hpp"

namespace weft::optim {

namespace {

class Lars final : public Rule {
 public:
  std::string name() const override { return "lars"; }

  Hyper defaults() const override {
    return {{"lr", 1e-3}, {"momentum", 0}, {"eeta", 1e-3}, {"weight_decay", 0}, {"epsilon", 0}};
  }

  void check(const Hyper& options) const override {
    check_at_least_zero(*this, options, {"lr", "momentum", "weight_decay", "epsilon"});
    const double eeta = options.at("eeta");
    if (!(eeta > 0 && eeta <= 1))
      fail(WEFT_INVALID_ARGUMENT, "optimizer lars: eeta is {}, must be above 0 and at most 1", eeta);
  }

  std::vector<StateInfo> states(const Hyper& options, at::IntArrayRef) const override {
    if (options.at("momentum") == 0) return {};
    return {{"momentum_buffer"}};
  }

  // Sums the squares of values and gradients.
  int64_t num_sums(int round, at::IntArrayRef) const override { return round == 0 ? 2 : 0; }

  void measure(Slice& slice, const Hyper&) const override {
    AT_DISPATCH_FLOATING_TYPES(slice.value.scalar_type(), "lars", [&] {
      const auto add = [&](const at::Tensor& tensor, double& sum) {
        sum += kernels::sum_of_squares(slice.counted_count,
                                       tensor.const_data_ptr<scalar_t>() + slice.counted_begin);
      };
      add(slice.value, slice.parameter->partial[0]);
      add(slice.gradient, slice.parameter->partial[1]);
    });
  }

  void update(int, UpdateBatch& batch) const override {
    const Hyper& options = batch.options;
    const double momentum = options.at("momentum"), decay = options.at("weight_decay");
    std::vector<std::string> states;
    if (momentum != 0) states.emplace_back("momentum_buffer");
    for (Slice& slice : batch.slices) {
      prepare(*this, slice, states);
      const double values = std::sqrt(slice.parameter->sums[0][0]);
      const double gradients = batch.factor * std::sqrt(slice.parameter->sums[0][1]);
      const double ratio =
          values > 0 && gradients > 0
              ? options.at("eeta") * values / (gradients + decay * values + options.at("epsilon"))
              : 1.0;
      const kernels::LarsOptions step{options.at("lr") * ratio, momentum, decay, batch.factor};
      AT_DISPATCH_FLOATING_TYPES(slice.value.scalar_type(), "lars", [&] {
        scalar_t* const buffer =
            momentum != 0 ? slice.state->at("momentum_buffer").data_ptr<scalar_t>() : nullptr;
        kernels::lars(slice.value.numel(), slice.value.data_ptr<scalar_t>(),
                      slice.gradient.data_ptr<scalar_t>(), buffer, step);
      });
    }
  }
};

class Lamb final : public Rule {
 public:
  std::string name() const override { return "lamb"; }

  Hyper defaults() const override {
    return {{"lr", 1e-3},        {"beta1", 0.9}, {"beta2", 0.999},      {"eps", 1e-6},
            {"weight_decay", 0}, {"adam", 0},    {"bias_correction", 0}};
  }

  void check(const Hyper& options) const override {
    check_at_least_zero(*this, options, {"lr", "eps", "weight_decay"});
    check_betas(*this, options, {"beta1", "beta2"});
    check_switches(*this, options, {"adam", "bias_correction"});
  }

  std::vector<StateInfo> states(const Hyper&, at::IntArrayRef) const override {
    return {{"exp_avg"}, {"exp_avg_sq"}};
  }

  int rounds() const override { return 2; }
  // Sums the squares of values and directions.
  int64_t num_sums(int round, at::IntArrayRef) const override { return round == 1 ? 2 : 0; }

  void update(int round, UpdateBatch& batch) const override {
    const Hyper& given = batch.options;
    const bool corrected = given.at("bias_correction") != 0;
    const auto correction = [&](double beta) {
      return corrected ? 1 - std::pow(beta, static_cast<double>(batch.step)) : 1.0;
    };
    const double beta1 = given.at("beta1"), beta2 = given.at("beta2");
    const kernels::LambOptions options{
        beta1,       beta2, given.at("eps"), given.at("weight_decay"), correction(beta1), correction(beta2),
        batch.factor};
    for (Slice& slice : batch.slices) {
      prepare(*this, slice, {"exp_avg", "exp_avg_sq"});
      AT_DISPATCH_FLOATING_TYPES(slice.value.scalar_type(), "lamb", [&] {
        if (round == 1)
          begin<scalar_t>(slice, options);
        else
          finish<scalar_t>(slice, options, given.at("lr"), given.at("adam") != 0);
      });
    }
  }

 private:
  // Only elements that this rank counts are added to the sums.
  template <class T>
  static void begin(Slice& slice, const kernels::LambOptions& options) {
    T* const w = slice.value.data_ptr<T>();
    T* const g = slice.gradient.data_ptr<T>();
    T* const m = slice.state->at("exp_avg").data_ptr<T>();
    T* const v = slice.state->at("exp_avg_sq").data_ptr<T>();
    double others[2] = {};
    const auto pass = [&](int64_t from, int64_t to, double* sums) {
      kernels::lamb_moments(to - from, w + from, g + from, m + from, v + from, options, sums);
    };
    const int64_t counted_end = slice.counted_begin + slice.counted_count;
    pass(0, slice.counted_begin, others);
    pass(slice.counted_begin, counted_end, slice.parameter->partial.data());
    pass(counted_end, slice.value.numel(), others);
  }

  template <class T>
  static void finish(Slice& slice, const kernels::LambOptions& options, double lr, bool adam) {
    const double values = std::sqrt(slice.parameter->sums[1][0]);
    const double direction = std::sqrt(slice.parameter->sums[1][1]);
    const double ratio = adam || values == 0 || direction == 0 ? 1.0 : values / direction;
    kernels::lamb_step(slice.value.numel(), slice.value.data_ptr<T>(),
                       slice.state->at("exp_avg").const_data_ptr<T>(),
                       slice.state->at("exp_avg_sq").const_data_ptr<T>(), options, lr * ratio);
  }
};

}  // namespace

std::shared_ptr<const Rule> lamb_rule() {
  return std::make_shared<Lamb>();
}
std::shared_ptr<const Rule> lars_rule() {
  return std::make_shared<Lars>();
}

}  // namespace weft::optim
