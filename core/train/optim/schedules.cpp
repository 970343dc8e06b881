#include "optim/schedules.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "base/json.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "optim/plateau.hpp"

namespace weft::optim {

using nlohmann::json;

namespace {

double share(int64_t part, int64_t whole) {
  return std::min(1.0, static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole)));
}

// Returns a factor that falls from 1 at progress 0 to 0 at progress 1.
double half_cosine(double progress) {
  return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

// A schedule after its warm-up: `step` counts from the end of the warm-up, `steps` are all that follow it.
class Curve {
 public:
  virtual ~Curve() = default;
  virtual double rate(double initial, int64_t step, int64_t steps) const = 0;
  virtual std::optional<double> momentum(int64_t step, int64_t steps) const { return std::nullopt; }
  virtual Plateau* plateau() { return nullptr; }
};

class Constant final : public Curve {
 public:
  explicit Constant(const Options&) {}
  double rate(double initial, int64_t, int64_t) const override { return initial; }
};

class Linear final : public Curve {
 public:
  explicit Linear(const Options&) {}
  double rate(double initial, int64_t step, int64_t steps) const override {
    return initial * (1 - share(step, steps));
  }
};

class Cosine final : public Curve {
 public:
  explicit Cosine(const Options& options) : minimum_(options.at("minimum_factor").real) {}
  double rate(double initial, int64_t step, int64_t steps) const override {
    return initial * (minimum_ + (1 - minimum_) * half_cosine(share(step, steps)));
  }

 private:
  double minimum_;
};

class CosineAnnealing : public Curve {
 public:
  explicit CosineAnnealing(const Options& options) : end_(options.at("eta_min").real) {}
  double rate(double initial, int64_t step, int64_t steps) const override {
    return end_ + (initial - end_) * half_cosine(share(step, steps));
  }

 private:
  double end_;
};

class FlatAnnealing final : public CosineAnnealing {
 public:
  explicit FlatAnnealing(const Options& options)
      : CosineAnnealing(options), flat_(options.at("pct_start").real) {}
  double rate(double initial, int64_t step, int64_t steps) const override {
    const auto flat = static_cast<int64_t>(static_cast<double>(steps) * flat_);
    return step < flat ? initial : CosineAnnealing::rate(initial, step - flat, steps - flat);
  }

 private:
  double flat_;
};

class MultiStep final : public Curve {
 public:
  explicit MultiStep(const Options& options) : gamma_(options.at("gamma").real) {
    const json milestones = json::parse(options.at("milestones").text);
    const bool is_list = milestones.is_array() && !milestones.empty() &&
                         std::all_of(milestones.begin(), milestones.end(), [](const json& milestone) {
                           return milestone.is_number_integer() && milestone >= 0;
                         });
    if (!is_list || !std::is_sorted(milestones.begin(), milestones.end()))
      fail(WEFT_INVALID_ARGUMENT,
           "schedule multi_step: milestones are {}, must be a list of steps in ascending order, [30, 60] say",
           milestones.dump());
    const int64_t warmup = options.at("warmup_steps").integer;
    for (const int64_t milestone : milestones.get<std::vector<int64_t>>())
      if (milestone >= warmup) milestones_.push_back(milestone - warmup);
  }
  double rate(double initial, int64_t step, int64_t) const override {
    const auto passed = std::upper_bound(milestones_.begin(), milestones_.end(), step) - milestones_.begin();
    return initial * std::pow(gamma_, static_cast<double>(passed));
  }

 private:
  double gamma_;
  std::vector<int64_t> milestones_;  // counted from the end of the warm-up
};

class Step final : public Curve {
 public:
  explicit Step(const Options& options)
      : gamma_(options.at("gamma").real), size_(options.at("step_size").integer) {}
  double rate(double initial, int64_t step, int64_t) const override {
    return initial * std::pow(gamma_, static_cast<double>(step / size_));
  }

 private:
  double gamma_;
  int64_t size_;
};

class Exponential final : public Curve {
 public:
  explicit Exponential(const Options& options) : gamma_(options.at("gamma").real) {}
  double rate(double initial, int64_t step, int64_t) const override {
    return initial * std::pow(gamma_, static_cast<double>(step));
  }

 private:
  double gamma_;
};

class Polynomial final : public Curve {
 public:
  explicit Polynomial(const Options& options)
      : end_(options.at("end_lr").real), power_(options.at("power").real) {}
  double rate(double initial, int64_t step, int64_t steps) const override {
    return (initial - end_) * std::pow(1 - share(step, steps), power_) + end_;
  }

 private:
  double end_, power_;
};

// One cycle (Smith, Topin 2017, arXiv:1708.07120) as in torch.optim.lr_scheduler.OneCycleLR.
class OneCycle final : public Curve {
 public:
  explicit OneCycle(const Options& options)
      : rise_(options.at("pct_start").real),
        start_(1 / options.at("div_factor").real),
        end_(start_ / options.at("final_div_factor").real),
        base_momentum_(options.at("base_momentum").real),
        max_momentum_(options.at("max_momentum").real),
        cosine_(options.at("anneal_strategy").text == "cos"),
        cycles_momentum_(options.at("cycle_momentum").integer != 0),
        three_phase_(options.at("three_phase").integer != 0) {}

  double rate(double initial, int64_t step, int64_t steps) const override {
    return initial * (three_phase_ ? along(step, steps, {start_, 1, start_, end_})
                                   : along(step, steps, {start_, 1, end_}));
  }
  std::optional<double> momentum(int64_t step, int64_t steps) const override {
    if (!cycles_momentum_) return std::nullopt;
    return three_phase_ ? along(step, steps, {max_momentum_, base_momentum_, max_momentum_, max_momentum_})
                        : along(step, steps, {max_momentum_, base_momentum_, max_momentum_});
  }

 private:
  // Goes from one of `points` to the next in each phase.
  double along(int64_t step, int64_t steps, const std::vector<double>& points) const {
    const auto all = static_cast<double>(steps);
    std::vector<double> ends = {rise_ * all - 1, all - 1};
    if (three_phase_) ends.insert(ends.begin() + 1, 2 * rise_ * all - 2);
    const double at = std::min(static_cast<double>(step), all - 1);
    double begin = 0;
    size_t phase = 0;
    for (; at > ends[phase] && phase + 1 < ends.size(); ++phase) begin = ends[phase];
    const double progress = ends[phase] > begin ? (at - begin) / (ends[phase] - begin) : 1;
    const double from = points[phase], to = points[phase + 1];
    return cosine_ ? to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * progress))
                   : (to - from) * progress + from;
  }

  double rise_, start_, end_, base_momentum_, max_momentum_;
  bool cosine_, cycles_momentum_, three_phase_;
};

class OnPlateau final : public Curve {
 public:
  explicit OnPlateau(const Options& options) : plateau_(options) {}
  double rate(double initial, int64_t, int64_t) const override { return plateau_.rate(initial); }
  Plateau* plateau() override { return &plateau_; }

 private:
  Plateau plateau_;
};

constexpr const char* kEtaMin = R"([{"name": "eta_min", "type": "float", "default": 0, "min": 0}])";
constexpr const char* kFlat = R"([
  {"name": "pct_start", "type": "float", "default": 0.72, "min": 0, "max": 1},
  {"name": "eta_min", "type": "float", "default": 0, "min": 0}])";
constexpr const char* kMultiStep = R"([
  {"name": "milestones", "type": "json", "doc": "steps in ascending order, [30,60] say"},
  {"name": "gamma", "type": "float", "default": 0.1, "min": 0}])";
constexpr const char* kStep = R"([
  {"name": "step_size", "type": "int", "default": 1, "min": 1},
  {"name": "gamma", "type": "float", "default": 0.1, "min": 0}])";
constexpr const char* kExponential = R"([{"name": "gamma", "type": "float", "default": 1, "min": 0}])";
constexpr const char* kPolynomial = R"([
  {"name": "end_lr", "type": "float", "default": 0.0001, "min": 0},
  {"name": "power", "type": "float", "default": 1, "min": 0}])";
constexpr const char* kOneCycle = R"([
  {"name": "pct_start", "type": "float", "default": 0.3, "min": 0, "max": 1},
  {"name": "anneal_strategy", "type": "text", "default": "cos", "choices": ["cos", "linear"]},
  {"name": "cycle_momentum", "type": "bool", "default": true},
  {"name": "base_momentum", "type": "float", "default": 0.85, "min": 0, "max": 1},
  {"name": "max_momentum", "type": "float", "default": 0.95, "min": 0, "max": 1},
  {"name": "div_factor", "type": "float", "default": 25, "min": 1},
  {"name": "final_div_factor", "type": "float", "default": 10000, "min": 1},
  {"name": "three_phase", "type": "bool", "default": false}])";
constexpr const char* kPlateau = R"([
  {"name": "mode", "type": "text", "default": "min", "choices": ["min", "max"]},
  {"name": "factor", "type": "float", "default": 0.1, "min": 0},
  {"name": "patience", "type": "int", "default": 10, "min": 0},
  {"name": "threshold", "type": "float", "default": 0.0001, "min": 0},
  {"name": "threshold_mode", "type": "text", "default": "rel", "choices": ["rel", "abs"]},
  {"name": "cooldown", "type": "int", "default": 0, "min": 0},
  {"name": "min_lr", "type": "float", "default": 0, "min": 0},
  {"name": "eps", "type": "float", "default": 0.00000001, "min": 0}])";
constexpr const char* kMinimum =
    R"([{"name": "minimum_factor", "type": "float", "default": 0, "min": 0, "max": 1}])";

template <class C>
std::unique_ptr<Curve> make(const Options& options) {
  return std::make_unique<C>(options);
}

struct Kind {
  const char* name;
  std::unique_ptr<Curve> (*make)(const Options&);
  const char* options;
  bool ends;                                     // needs total_steps
  enum { kNone, kFromZero, kFromFirst } warmup;  // the first step's rate is 0, or a share of 1 / warmup_steps
};

const std::vector<Kind> kKinds = {
    {"constant", &make<Constant>, "[]", false, Kind::kFromZero},
    {"linear", &make<Linear>, "[]", true, Kind::kNone},
    {"linear_warmup", &make<Linear>, "[]", true, Kind::kFromZero},
    {"cosine_warmup", &make<Cosine>, kMinimum, true, Kind::kFromZero},
    {"cosine_annealing", &make<CosineAnnealing>, kEtaMin, true, Kind::kNone},
    {"cosine_annealing_warmup", &make<CosineAnnealing>, kEtaMin, true, Kind::kFromFirst},
    {"flat_annealing", &make<FlatAnnealing>, kFlat, true, Kind::kNone},
    {"flat_annealing_warmup", &make<FlatAnnealing>, kFlat, true, Kind::kFromFirst},
    {"multi_step", &make<MultiStep>, kMultiStep, false, Kind::kNone},
    {"multi_step_warmup", &make<MultiStep>, kMultiStep, false, Kind::kFromFirst},
    {"one_cycle", &make<OneCycle>, kOneCycle, true, Kind::kNone},
    {"polynomial", &make<Polynomial>, kPolynomial, true, Kind::kNone},
    {"polynomial_warmup", &make<Polynomial>, kPolynomial, true, Kind::kFromFirst},
    {"exponential", &make<Exponential>, kExponential, false, Kind::kNone},
    {"exponential_warmup", &make<Exponential>, kExponential, false, Kind::kFromFirst},
    {"step", &make<Step>, kStep, false, Kind::kNone},
    {"step_warmup", &make<Step>, kStep, false, Kind::kFromFirst},
    {"plateau", &make<OnPlateau>, kPlateau, false, Kind::kNone},
    {"plateau_warmup", &make<OnPlateau>, kPlateau, false, Kind::kFromFirst}};

const Kind& find_kind(std::string_view name) {
  for (const Kind& kind : kKinds)
    if (kind.name == name) return kind;
  const std::vector<std::string> names = schedule_names();
  fail(WEFT_NOT_FOUND, "no learning-rate schedule is called \"{}\"{}; there are: {}", printable(name),
       did_you_mean(name, names), fmt::join(names, ", "));
}

class WarmedUp final : public Schedule {
 public:
  WarmedUp(const Kind& kind, const Options& options)
      : kind_(kind),
        warmup_(options.at("warmup_steps").integer),
        total_(options.at("total_steps").integer),
        identity_(fmt::format("{} warmup_steps={}", kind.name, warmup_)),
        curve_(kind.make(options)) {
    json others = options.to_json();
    others.erase("warmup_steps");
    others.erase("total_steps");
    for (const auto& [name, value] : others.items()) identity_ += " " + name + "=" + value.dump();
  }

  double rate(double initial, int64_t step) const override {
    if (step >= warmup_) return curve_->rate(initial, step - warmup_, total_ - warmup_);
    const int64_t part = step + (kind_.warmup == Kind::kFromFirst ? 1 : 0);
    return initial * (static_cast<double>(part) / static_cast<double>(warmup_));
  }
  std::optional<double> momentum(int64_t step) const override { return curve_->momentum(step, total_); }
  std::string identity() const override { return identity_; }
  bool follows_metric() const override { return curve_->plateau() != nullptr; }
  void observe(int64_t step, double metric) override {
    if (follows_metric() && step >= warmup_) curve_->plateau()->observe(metric);
  }
  std::string state() const override { return follows_metric() ? curve_->plateau()->state() : ""; }
  void restore(const std::string& state) override {
    if (follows_metric()) return curve_->plateau()->restore(state);
    if (!state.empty()) fail(WEFT_INVALID_ARGUMENT, "schedule {} has no state to restore", kind_.name);
  }

 private:
  const Kind& kind_;
  int64_t warmup_, total_;
  std::string identity_;
  std::unique_ptr<Curve> curve_;
};

}  // namespace

OptionTable schedule_options(std::string_view name) {
  json table = json::parse(R"([
    {"name": "warmup_steps", "type": "int", "default": 0, "min": 0, "doc": "steps to the full rate"},
    {"name": "total_steps", "type": "int", "default": 0, "min": 0, "doc": "of the run"}])");
  const Kind& kind = find_kind(name);
  for (const json& option : json::parse(kind.options)) table.push_back(option);
  return OptionTable(table, fmt::format("schedule {}", name));
}

std::shared_ptr<Schedule> make_schedule(std::string_view name, const json& given) {
  const std::string who = fmt::format("schedule {}", name);
  const Options options(schedule_options(name), given, who);
  const Kind& kind = find_kind(name);
  const int64_t warmup = options.at("warmup_steps").integer, total = options.at("total_steps").integer;
  if (kind.warmup == Kind::kNone && warmup > 0)
    fail(WEFT_INVALID_ARGUMENT, "{}: warmup_steps is {}, but it has no warm-up{}", who, warmup,
         name == "one_cycle" ? " of its own: pct_start says how long it rises"
                             : fmt::format("; {}_warmup has one", name));
  if (kind.ends && total < 1)
    fail(WEFT_INVALID_ARGUMENT, "{}: total_steps is {}; it needs to know how many steps the run has", who,
         total);
  if (kind.ends && warmup > total)
    fail(WEFT_INVALID_ARGUMENT, "{}: warmup_steps is {}, must be at most the {} steps of the run", who,
         warmup, total);
  return std::make_shared<WarmedUp>(kind, options);
}

std::shared_ptr<Schedule> schedule(std::string_view name, const ScheduleOptions& options) {
  json given = parse_json(options.more, fmt::format("schedule {}: more options", name));
  if (!given.is_object())
    fail(WEFT_INVALID_ARGUMENT, "schedule {}: the options are {}, must be an object", name, json_kind(given));
  if (options.warmup_steps != 0) given["warmup_steps"] = options.warmup_steps;
  if (options.total_steps != 0) given["total_steps"] = options.total_steps;
  if (options.minimum_factor != 0) given["minimum_factor"] = options.minimum_factor;
  return make_schedule(name, given);
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

}  // namespace weft::optim
