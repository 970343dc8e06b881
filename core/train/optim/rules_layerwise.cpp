#include "optim/rules.hpp"

#include <cmath>

#include "base/text.hpp"
#include "device/reading.hpp"
#include "dispatch/operators.hpp"
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

  void measure(Slice& slice, const Hyper&, device::Reading& reading) const override {
    const auto counted = [&](const at::Tensor& tensor) {
      return tensor.narrow(0, slice.counted_begin, slice.counted_count);
    };
    const std::vector<at::Tensor> ranges = {counted(slice.value), counted(slice.gradient)};
    reading.add(call<operators::SumsOfSquares>(ranges), slice.parameter->partial.data());
  }

  bool runs_on(const at::Tensor& value) const override {
    return has_kernel<operators::Lars>(value) && has_kernel<operators::SumsOfSquares>(value);
  }

  void update(int, UpdateBatch& batch, device::Reading&) const override {
    const Hyper& options = batch.options;
    const double momentum = options.at("momentum"), decay = options.at("weight_decay");
    std::vector<std::string> states;
    if (momentum != 0) states.emplace_back("momentum_buffer");
    for (const Lists& part : group(*this, batch, states)) {
      std::vector<double> rates;
      for (const Slice* slice : part.slices) {
        const double values = std::sqrt(slice->parameter->sums[0][0]);
        const double gradients = batch.factor * std::sqrt(slice->parameter->sums[0][1]);
        const double ratio =
            values > 0 && gradients > 0
                ? options.at("eeta") * values / (gradients + decay * values + options.at("epsilon"))
                : 1.0;
        rates.push_back(options.at("lr") * ratio);
      }
      call<operators::Lars>(part.values, part.gradients,
                            momentum != 0 ? part.states[0] : std::vector<at::Tensor>(), rates, momentum,
                            decay, batch.factor);
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

  bool runs_on(const at::Tensor& value) const override {
    return has_kernel<operators::LambMoments>(value) && has_kernel<operators::LambStep>(value);
  }

  void update(int round, UpdateBatch& batch, device::Reading& reading) const override {
    const Hyper& options = batch.options;
    const bool corrected = options.at("bias_correction") != 0;
    const auto correction = [&](const char* beta) {
      return corrected ? 1 - std::pow(options.at(beta), static_cast<double>(batch.step)) : 1.0;
    };
    const double correction1 = correction("beta1"), correction2 = correction("beta2");
    for (const Lists& part : group(*this, batch, {"exp_avg", "exp_avg_sq"})) {
      if (round == 1) {
        const at::Tensor sums = call<operators::LambMoments>(
            part.values, part.gradients, part.states[0], part.states[1], counted(part), options.at("beta1"),
            options.at("beta2"), options.at("eps"), options.at("weight_decay"), correction1, correction2,
            batch.factor);
        for (size_t i = 0; i < part.slices.size(); ++i)
          reading.add(sums.select(0, static_cast<int64_t>(i)), part.slices[i]->parameter->partial.data());
      } else {
        call<operators::LambStep>(part.values, part.states[0], part.states[1], rates(part, options),
                                  options.at("eps"), options.at("weight_decay"), correction1, correction2);
      }
    }
  }

 private:
  // Only elements that this rank counts are added to the sums.
  static std::vector<int64_t> counted(const Lists& part) {
    std::vector<int64_t> ranges;
    for (const Slice* slice : part.slices)
      ranges.insert(ranges.end(), {slice->counted_begin, slice->counted_count});
    return ranges;
  }

  static std::vector<double> rates(const Lists& part, const Hyper& options) {
    std::vector<double> rates;
    for (const Slice* slice : part.slices) {
      const double values = std::sqrt(slice->parameter->sums[1][0]);
      const double direction = std::sqrt(slice->parameter->sums[1][1]);
      const bool plain = options.at("adam") != 0 || values == 0 || direction == 0;
      rates.push_back(options.at("lr") * (plain ? 1.0 : values / direction));
    }
    return rates;
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
