#include "optim/rules.hpp"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "device/reading.hpp"
#include "dispatch/operators.hpp"
#include "optim/directions.hpp"
#include "optim/rules_slices.hpp"

namespace weft::optim {

namespace {

double num_elements(const Whole& parameter) {
  double count = 1;
  for (const int64_t size : parameter.shape) count *= static_cast<double>(size);
  return count;
}

// Updates a pair of running means with `scale` times the means of the sums, plus eps. Rows come first.
Factors average(const Whole& parameter, const std::string& name, const double* sums, double scale, double eps,
                double beta) {
  const Matrices matrices(parameter.shape);
  const auto move = [&](const std::string& which, StateKind kind, int64_t count, int64_t elements) {
    at::Tensor& state = (*parameter.state)[name + which];
    if (!state.defined()) state = at::zeros(state_shape(kind, parameter.shape), parameter.dtype);
    const at::Tensor totals = at::from_blob(const_cast<double*>(sums), {count}, at::kDouble);
    const at::Tensor means = (totals * (scale / static_cast<double>(elements)) + eps).view(state.sizes());
    state.mul_(beta).add_(means.to(state.scalar_type()), 1 - beta);
    sums += count;
    return state;
  };
  const at::Tensor rows = move("_row", StateKind::kRow, matrices.num_rows(), matrices.columns);
  return factors_of(rows, move("_col", StateKind::kColumn, matrices.num_columns(), matrices.rows));
}

// The common part of both rules: the direction u = gradient / sqrt(second moment), and its norm.
class Factored : public Rule {
 public:
  explicit Factored(int64_t own_sums) : own_sums_(own_sums) {}

  bool runs_on(const at::Tensor& value) const override {
    return has_kernel<operators::FactoredSums>(value) && has_kernel<operators::FactoredNorms>(value) &&
           has_kernel<operators::FactoredAverage>(value) && has_kernel<operators::FactoredStep>(value) &&
           has_kernel<operators::SumsOfSquares>(value);
  }

 protected:
  static int64_t num_means(at::IntArrayRef shape) {
    if (!is_factored(shape)) return 0;
    const Matrices matrices(shape);
    return matrices.num_rows() + matrices.num_columns();
  }

  static std::vector<StateInfo> second_moment(at::IntArrayRef shape) {
    if (!is_factored(shape)) return {{"exp_avg_sq"}};
    return {{"exp_avg_sq_row", StateKind::kRow}, {"exp_avg_sq_col", StateKind::kColumn}};
  }

  // Round 0: sums the squares of the gradient by row and by column, after the first `own_sums` sums.
  void measure_squares(const Slice& slice, device::Reading& reading) const {
    if (!is_factored(slice.parameter->shape)) return;
    const MatrixSlice place(slice);
    std::vector<int64_t> places;
    add_place(slice, place.range, places);
    const std::vector<at::Tensor> gradients = {slice.gradient}, none;
    reading.add(call<operators::FactoredSums>(gradients, none, none, none, places, at::ArrayRef<double>()),
                slice.parameter->partial.data() + own_sums_, places_of_sums(*slice.parameter, place));
  }

  // Round 1: updates the second moment, scales the gradients, and sums the squares of u.
  void begin(UpdateBatch& batch, double beta2, double eps, const std::vector<std::string>& averages,
             device::Reading& reading) const {
    std::vector<at::Tensor> gradients;
    for (Slice& slice : batch.slices) {
      prepare_slice(slice, averages);
      gradients.push_back(slice.gradient);
    }
    if (batch.factor != 1 && !gradients.empty()) at::_foreach_mul_(gradients, batch.factor);
    for (Slice& slice : batch.slices)
      if (!is_factored(slice.parameter->shape))
        slice.state->at("exp_avg_sq")
            .mul_(beta2)
            .addcmul_(slice.gradient, slice.gradient, 1 - beta2)
            .add_((1 - beta2) * eps);
    std::map<const Whole*, Factors> factors;
    for (Whole* parameter : batch.parameters)
      if (is_factored(parameter->shape))
        factors[parameter] = average(*parameter, "exp_avg_sq", parameter->sums[0].data() + own_sums_,
                                     batch.factor * batch.factor, eps, beta2);
    for (const Directions& own :
         directions_of(batch.slices, [&](const Whole& parameter) { return factors.at(&parameter); })) {
      const at::Tensor norms =
          call<operators::FactoredNorms>(own.gradients, own.row_factors, own.column_factors, own.places);
      for (size_t i = 0; i < own.slices.size(); ++i)
        reading.add(norms[static_cast<int64_t>(i)], own.slices[i]->parameter->partial.data());
    }
  }

  // Returns the directions of this update. The states of whole parameters must not have changed since round
  // 1.
  static std::vector<Directions> directions(std::vector<Slice>& slices) {
    return directions_of(slices, [](const Whole& parameter) {
      return factors_of(parameter.state->at("exp_avg_sq_row"), parameter.state->at("exp_avg_sq_col"));
    });
  }

  // Returns the slices of a batch that have rows and columns, or those that have none.
  static std::vector<Slice> slices_of(const UpdateBatch& batch, bool factored) {
    std::vector<Slice> slices;
    for (const Slice& slice : batch.slices)
      if (is_factored(slice.parameter->shape) == factored) slices.push_back(slice);
    return slices;
  }

  // Returns which of a parameter's sums of rows and columns get those of a slice.
  static std::vector<int64_t> places_of_sums(const Whole& parameter, const MatrixSlice& place) {
    std::vector<int64_t> places = place.rows;
    const int64_t num_rows = Matrices(parameter.shape).num_rows();
    for (const int64_t column : place.columns) places.push_back(num_rows + column);
    return places;
  }

  // Returns the divisor that brings the RMS of u down to the threshold.
  static double clipping(const Whole& parameter, double threshold) {
    return std::max(1.0, std::sqrt(parameter.sums[1][0] / num_elements(parameter)) / threshold);
  }

 private:
  void prepare_slice(Slice& slice, std::vector<std::string> names) const {
    if (!is_factored(slice.parameter->shape)) names.emplace_back("exp_avg_sq");
    prepare(*this, slice, names);
  }

  int64_t own_sums_;
};

void check_positive(const Rule& rule, const Hyper& options, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!(options.at(name) > 0))
      fail(WEFT_INVALID_ARGUMENT, "optimizer {}: {} is {}, must be positive", rule.name(), name,
           options.at(name));
}

class Adafactor final : public Factored {
 public:
  Adafactor() : Factored(1) {}  // one sum of its own: the squares of the values

  std::string name() const override { return "adafactor"; }

  Hyper defaults() const override {
    return {{"lr", 1e-2},         {"eps1", 1e-30},   {"eps2", 1e-3},      {"clip_threshold", 1},
            {"decay_rate", -0.8}, {"beta1", 0},      {"weight_decay", 0}, {"scale_parameter", 1},
            {"relative_step", 1}, {"warmup_init", 0}};
  }

  void check(const Hyper& options) const override {
    check_at_least_zero(*this, options, {"lr", "eps2", "weight_decay"});
    check_positive(*this, options, {"eps1", "clip_threshold"});
    check_betas(*this, options, {"beta1"});
    check_switches(*this, options, {"scale_parameter", "relative_step", "warmup_init"});
    if (!(options.at("decay_rate") <= 0))
      fail(WEFT_INVALID_ARGUMENT, "optimizer adafactor: decay_rate is {}, must be at most 0",
           options.at("decay_rate"));
    if (options.at("warmup_init") != 0 && options.at("relative_step") == 0)
      fail(WEFT_INVALID_ARGUMENT, "optimizer adafactor: warmup_init needs relative_step");
  }

  std::vector<StateInfo> states(const Hyper& options, at::IntArrayRef shape) const override {
    std::vector<StateInfo> result = second_moment(shape);
    if (options.at("beta1") != 0) result.push_back({"exp_avg"});
    return result;
  }

  int rounds() const override { return 2; }
  int64_t num_sums(int round, at::IntArrayRef shape) const override {
    return round == 0 ? 1 + num_means(shape) : 1;
  }

  void measure(Slice& slice, const Hyper&, device::Reading& reading) const override {
    const std::vector<at::Tensor> counted = {slice.value.narrow(0, slice.counted_begin, slice.counted_count)};
    reading.add(call<operators::SumsOfSquares>(counted), slice.parameter->partial.data());
    measure_squares(slice, reading);
  }

  void update(int round, UpdateBatch& batch, device::Reading& reading) const override {
    const Hyper& options = batch.options;
    const double beta1 = options.at("beta1"), t = static_cast<double>(batch.step);
    if (round == 1) {
      std::vector<std::string> averages;
      if (beta1 != 0) averages.emplace_back("exp_avg");
      return begin(batch, 1 - std::pow(t, options.at("decay_rate")), options.at("eps1"), averages, reading);
    }
    for (const Directions& own : directions(batch.slices)) {
      std::vector<double> rates, keep;
      for (const Slice* slice : own.slices) {
        const double lr = rate(options, t, *slice->parameter);
        rates.push_back(lr / clipping(*slice->parameter, options.at("clip_threshold")));
        keep.push_back(1 - options.at("weight_decay") * lr);
      }
      if (beta1 == 0) {
        call<operators::FactoredStep>(own.values, own.gradients, own.row_factors, own.column_factors,
                                      own.places, rates, keep);
        continue;
      }
      const std::vector<at::Tensor> averages = own.states("exp_avg");
      call<operators::FactoredAverage>(averages, own.gradients, own.row_factors, own.column_factors,
                                       own.places, rates, beta1);
      for (size_t i = 0; i < averages.size(); ++i) own.values[i].mul_(keep[i]).sub_(averages[i]);
    }
  }

 private:
  static double rate(const Hyper& options, double t, const Whole& parameter) {
    double rate = options.at("lr");
    if (options.at("relative_step") != 0) rate = std::min(rate, 1 / std::sqrt(t));
    if (options.at("warmup_init") != 0) rate = std::min(rate, 1e-6 * t);
    if (options.at("scale_parameter") != 0)
      rate *= std::max(options.at("eps2"), std::sqrt(parameter.sums[0][0] / num_elements(parameter)));
    return rate;
  }
};

class Came final : public Factored {
 public:
  Came() : Factored(0) {}

  std::string name() const override { return "came"; }

  Hyper defaults() const override {
    return {{"lr", std::numeric_limits<double>::quiet_NaN()},
            {"eps1", 1e-30},
            {"eps2", 1e-16},
            {"clip_threshold", 1},
            {"beta1", 0.9},
            {"beta2", 0.999},
            {"beta3", 0.9999},
            {"weight_decay", 0}};
  }

  void check(const Hyper& options) const override {
    check_at_least_zero(*this, options, {"lr", "weight_decay"});
    check_positive(*this, options, {"eps1", "eps2", "clip_threshold"});
    check_betas(*this, options, {"beta1", "beta2", "beta3"});
  }

  std::vector<StateInfo> states(const Hyper&, at::IntArrayRef shape) const override {
    std::vector<StateInfo> result = second_moment(shape);
    result.push_back({"exp_avg"});
    if (is_factored(shape)) {
      result.push_back({"exp_avg_res_row", StateKind::kRow});
      result.push_back({"exp_avg_res_col", StateKind::kColumn});
    }
    return result;
  }

  int rounds() const override { return 3; }
  // Rounds 0 and 2: sum rows and columns of the squared gradient and of the instability.
  int64_t num_sums(int round, at::IntArrayRef shape) const override {
    return round == 1 ? 1 : num_means(shape);
  }

  void measure(Slice& slice, const Hyper&, device::Reading& reading) const override {
    measure_squares(slice, reading);
  }

  void update(int round, UpdateBatch& batch, device::Reading& reading) const override {
    const Hyper& options = batch.options;
    if (round == 1) return begin(batch, options.at("beta2"), options.at("eps1"), {"exp_avg"}, reading);
    if (round == 2) return average_direction(batch, reading);
    std::map<const Whole*, Factors> factors;
    for (Whole* parameter : batch.parameters)
      if (is_factored(parameter->shape))
        factors[parameter] = average(*parameter, "exp_avg_res", parameter->sums[2].data(), 1,
                                     options.at("eps2"), options.at("beta3"));
    const double lr = options.at("lr"), keep = 1 - options.at("weight_decay") * lr;
    for (Slice& slice : slices_of(batch, false)) slice.value.mul_(keep).sub_(slice.state->at("exp_avg"), lr);
    std::vector<Slice> factored = slices_of(batch, true);
    for (const Directions& own :
         directions_of(factored, [&](const Whole& parameter) { return factors.at(&parameter); }))
      call<operators::FactoredStep>(own.values, own.states("exp_avg"), own.row_factors, own.column_factors,
                                    own.places, std::vector<double>(own.slices.size(), lr),
                                    std::vector<double>(own.slices.size(), keep));
  }

 private:
  // Updates the first moment, and sums the squares of its difference from the direction.
  static void average_direction(const UpdateBatch& batch, device::Reading& reading) {
    const auto rates_of = [&](const Directions& own) {
      std::vector<double> rates;
      for (const Slice* slice : own.slices)
        rates.push_back(1 / clipping(*slice->parameter, batch.options.at("clip_threshold")));
      return rates;
    };
    const auto move_average = [&](const Directions& own) {
      call<operators::FactoredAverage>(own.states("exp_avg"), own.gradients, own.row_factors,
                                       own.column_factors, own.places, rates_of(own),
                                       batch.options.at("beta1"));
    };
    std::vector<Slice> vectors = slices_of(batch, false), factored = slices_of(batch, true);
    for (const Directions& own : directions(vectors)) move_average(own);
    for (const Directions& own : directions(factored)) {
      move_average(own);
      const at::Tensor sums =
          call<operators::FactoredSums>(own.gradients, own.states("exp_avg"), own.row_factors,
                                        own.column_factors, own.places, rates_of(own));
      int64_t next = 0;
      for (const Slice* slice : own.slices) {
        std::vector<int64_t> places = places_of_sums(*slice->parameter, MatrixSlice(*slice));
        const auto count = static_cast<int64_t>(places.size());
        reading.add(sums.narrow(0, next, count), slice->parameter->partial.data(), std::move(places));
        next += count;
      }
    }
  }
};

}  // namespace

std::shared_ptr<const Rule> adafactor_rule() {
  return std::make_shared<Adafactor>();
}
std::shared_ptr<const Rule> came_rule() {
  return std::make_shared<Came>();
}

}  // namespace weft::optim
