#include "optim/rules_factored.hpp"

#include <ATen/Dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "cpu/update_rules.hpp"
#include "optim/lines.hpp"
#include "optim/rules_slices.hpp"

namespace weft::optim {

namespace {

double num_elements(const Whole& parameter) {
  double count = 1;
  for (const int64_t size : parameter.shape) count *= static_cast<double>(size);
  return count;
}

// The factors of u = gradient * row factor * column factor.
struct Factors {
  at::Tensor rows, columns;  // flat; rows is undefined with fewer than two dimensions

  template <class T>
  double row(const Line& line) const {
    return rows.defined() ? static_cast<double>(rows.const_data_ptr<T>()[line.row]) : 1.0;
  }
  template <class T>
  const T* column(const Line& line) const {
    return columns.const_data_ptr<T>() + line.column;
  }
};

// Computes the factors of 1 / sqrt(row column / mean of the rows), which approximates 1 / sqrt of the second
// moment of each element.
Factors factors_of(const at::Tensor& rows, const at::Tensor& columns) {
  return {(rows / rows.mean(-1, /*keepdim=*/true)).rsqrt().flatten(), columns.rsqrt().flatten()};
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
  void measure_squares(Slice& slice) const {
    if (!is_factored(slice.parameter->shape)) return;
    const Matrices matrices(slice.parameter->shape);
    double* const rows = slice.parameter->partial.data() + own_sums_;
    AT_DISPATCH_FLOATING_TYPES(slice.value.scalar_type(), "squares", [&] {
      const scalar_t* const gradient = slice.gradient.const_data_ptr<scalar_t>();
      sum_rows_and_columns(Lines::counted(slice), matrices, rows, rows + matrices.num_rows(),
                           [&](const Line& line, double* columns) {
                             return kernels::squares(line.count, gradient + line.at, columns);
                           });
    });
  }

  // Round 1: updates the second moment, scales the gradients, and sums the squares of u.
  void begin(UpdateBatch& batch, double beta2, double eps, const std::vector<std::string>& averages) const {
    std::map<const Whole*, Factors> factors;
    for (Whole* parameter : batch.parameters)
      if (is_factored(parameter->shape))
        factors[parameter] = average(*parameter, "exp_avg_sq", parameter->sums[0].data() + own_sums_,
                                     batch.factor * batch.factor, eps, beta2);
    for (Slice& slice : batch.slices) {
      prepare_slice(slice, averages);
      if (batch.factor != 1) slice.gradient.mul_(batch.factor);
      if (!is_factored(slice.parameter->shape))
        slice.state->at("exp_avg_sq")
            .mul_(beta2)
            .addcmul_(slice.gradient, slice.gradient, 1 - beta2)
            .add_((1 - beta2) * eps);
      const Factors own =
          is_factored(slice.parameter->shape) ? factors.at(slice.parameter) : elementwise_factors(slice);
      AT_DISPATCH_FLOATING_TYPES(slice.value.scalar_type(), "direction", [&] {
        const scalar_t* const gradient = slice.gradient.const_data_ptr<scalar_t>();
        slice.parameter->partial[0] += sum_lines(Lines::counted(slice), [&](const Line& line) {
          const double row = own.row<scalar_t>(line);
          return row * row *
                 kernels::scaled_squares(line.count, gradient + line.at, own.column<scalar_t>(line));
        });
      });
    }
  }

  // Returns the factors of u. The states of whole parameters must not have changed since round 1.
  static Factors direction(const Slice& slice) {
    if (!is_factored(slice.parameter->shape)) return elementwise_factors(slice);
    const States& states = *slice.parameter->state;
    return factors_of(states.at("exp_avg_sq_row"), states.at("exp_avg_sq_col"));
  }

  // Returns the divisor that brings the RMS of u down to the threshold.
  static double clipping(const Whole& parameter, double threshold) {
    return std::max(1.0, std::sqrt(parameter.sums[1][0] / num_elements(parameter)) / threshold);
  }

  // Computes w = keep w - rate * `from` * its factors.
  static void step(Slice& slice, const at::Tensor& from, const Factors& factors, double rate, double keep) {
    AT_DISPATCH_FLOATING_TYPES(slice.value.scalar_type(), "factored_step", [&] {
      scalar_t* const w = slice.value.data_ptr<scalar_t>();
      const scalar_t* const direction = from.const_data_ptr<scalar_t>();
      for_each_line(Lines::all(slice), kernels::parallel_parts(), [&](int64_t, const Line& line) {
        kernels::scaled_step(line.count, w + line.at, direction + line.at, factors.column<scalar_t>(line),
                             rate * factors.row<scalar_t>(line), keep);
      });
    });
  }

  // Updates exp_avg with rate * u.
  static void move_average(Slice& slice, const Factors& factors, double rate, double beta1) {
    AT_DISPATCH_FLOATING_TYPES(slice.value.scalar_type(), "factored_average", [&] {
      scalar_t* const average = slice.state->at("exp_avg").data_ptr<scalar_t>();
      const scalar_t* const gradient = slice.gradient.const_data_ptr<scalar_t>();
      for_each_line(Lines::all(slice), kernels::parallel_parts(), [&](int64_t, const Line& line) {
        kernels::scaled_average(line.count, average + line.at, gradient + line.at,
                                factors.column<scalar_t>(line), rate * factors.row<scalar_t>(line), beta1);
      });
    });
  }

 private:
  static Factors elementwise_factors(const Slice& slice) {
    return {{}, slice.state->at("exp_avg_sq").rsqrt()};
  }

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

  void measure(Slice& slice, const Hyper&, device::Reading&) const override {
    AT_DISPATCH_FLOATING_TYPES(slice.value.scalar_type(), "adafactor", [&] {
      slice.parameter->partial[0] += kernels::sum_of_squares(
          slice.counted_count, slice.value.const_data_ptr<scalar_t>() + slice.counted_begin);
    });
    measure_squares(slice);
  }

  void update(int round, UpdateBatch& batch) const override {
    const Hyper& options = batch.options;
    const double beta1 = options.at("beta1"), t = static_cast<double>(batch.step);
    if (round == 1) {
      std::vector<std::string> averages;
      if (beta1 != 0) averages.emplace_back("exp_avg");
      return begin(batch, 1 - std::pow(t, options.at("decay_rate")), options.at("eps1"), averages);
    }
    for (Slice& slice : batch.slices) {
      const Factors factors = direction(slice);
      const double lr = rate(options, t, *slice.parameter);
      const double step_size = lr / clipping(*slice.parameter, options.at("clip_threshold"));
      const double keep = 1 - options.at("weight_decay") * lr;
      if (beta1 == 0) {
        step(slice, slice.gradient, factors, step_size, keep);
      } else {
        move_average(slice, factors, step_size, beta1);
        slice.value.mul_(keep).sub_(slice.state->at("exp_avg"));
      }
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

  void measure(Slice& slice, const Hyper&, device::Reading&) const override { measure_squares(slice); }

  void update(int round, UpdateBatch& batch) const override {
    const Hyper& options = batch.options;
    if (round == 1) return begin(batch, options.at("beta2"), options.at("eps1"), {"exp_avg"});
    if (round == 2) return average_direction(batch);
    std::map<const Whole*, Factors> factors;
    for (Whole* parameter : batch.parameters)
      if (is_factored(parameter->shape))
        factors[parameter] = average(*parameter, "exp_avg_res", parameter->sums[2].data(), 1,
                                     options.at("eps2"), options.at("beta3"));
    const double lr = options.at("lr"), keep = 1 - options.at("weight_decay") * lr;
    for (Slice& slice : batch.slices) {
      at::Tensor& average = slice.state->at("exp_avg");
      if (is_factored(slice.parameter->shape))
        step(slice, average, factors.at(slice.parameter), lr, keep);
      else
        slice.value.mul_(keep).sub_(average, lr);
    }
  }

 private:
  // Updates the first moment, and sums the squares of its difference from the direction.
  static void average_direction(UpdateBatch& batch) {
    for (Slice& slice : batch.slices) {
      Whole& parameter = *slice.parameter;
      const Factors factors = direction(slice);
      const double scale = 1 / clipping(parameter, batch.options.at("clip_threshold"));
      move_average(slice, factors, scale, batch.options.at("beta1"));
      if (!is_factored(parameter.shape)) continue;
      const Matrices matrices(parameter.shape);
      double* const rows = parameter.partial.data();
      AT_DISPATCH_FLOATING_TYPES(slice.value.scalar_type(), "instability", [&] {
        const scalar_t* const average = slice.state->at("exp_avg").const_data_ptr<scalar_t>();
        const scalar_t* const gradient = slice.gradient.const_data_ptr<scalar_t>();
        sum_rows_and_columns(Lines::counted(slice), matrices, rows, rows + matrices.num_rows(),
                             [&](const Line& line, double* columns) {
                               return kernels::instability(line.count, average + line.at, gradient + line.at,
                                                           factors.column<scalar_t>(line),
                                                           scale * factors.row<scalar_t>(line), columns);
                             });
      });
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
