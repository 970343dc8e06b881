#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>

#include "base/files.hpp"
#include "base/json.hpp"
#include "optim/schedules.hpp"
#include "support/expect_error.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/optim/scheduler.hpp"

namespace weft::optim {
namespace {

using nlohmann::json;

TEST(Schedule, IsRefusedByUnknownNameWithTheNearest) {
  EXPECT_ERROR(schedule("cosine_warmpu", {}), WEFT_NOT_FOUND, "\"cosine_warmpu\"",
               "did you mean \"cosine_warmup\"", "constant, linear, linear_warmup, cosine_warmup");
}

TEST(Schedule, IsRefusedForOptionsThatDoNotFit) {
  EXPECT_ERROR(schedule("constant", {.warmup_steps = -1}), WEFT_INVALID_ARGUMENT, "warmup_steps is -1");
  for (const char* name : {"linear_warmup", "cosine_warmup"}) {
    EXPECT_ERROR(schedule(name, {.warmup_steps = 3}), WEFT_INVALID_ARGUMENT, name, "total_steps is 0");
    EXPECT_ERROR(schedule(name, {.warmup_steps = 11, .total_steps = 10}), WEFT_INVALID_ARGUMENT, name,
                 "warmup_steps is 11", "most the 10");
  }
  EXPECT_ERROR(schedule("linear_warmup", {.total_steps = 10, .minimum_factor = 0.1}), WEFT_INVALID_ARGUMENT,
               "linear_warmup", "is called \"minimum_factor\"");
  EXPECT_ERROR(schedule("cosine_warmup", {.total_steps = 10, .minimum_factor = 1.5}), WEFT_INVALID_ARGUMENT,
               "minimum_factor is 1.5", "0 to 1");
}

void expect_factors(const char* name, const ScheduleOptions& options, const std::vector<double>& expected) {
  const auto made = schedule(name, options);
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(made->factor(static_cast<int64_t>(step)), expected[step], 1e-15) << name << " step " << step;
  }
}

// The rates of transformers 5.23.0 (get_*_schedule_with_warmup) under a base rate of 1.
TEST(Schedule, EqualsTransformers) {
  expect_factors("constant", {.warmup_steps = 4}, {0.0, 0.25, 0.5, 0.75, 1.0, 1.0});
  expect_factors("linear_warmup", {.warmup_steps = 3, .total_steps = 10},
                 {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.8571428571428571, 0.7142857142857143,
                  0.5714285714285714, 0.42857142857142855, 0.2857142857142857, 0.14285714285714285, 0.0});
  expect_factors("cosine_warmup", {.warmup_steps = 3, .total_steps = 10},
                 {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.9504844339512095, 0.8117449009293668,
                  0.6112604669781572, 0.38873953302184283, 0.18825509907063326, 0.04951556604879048, 0.0});
  expect_factors(
      "cosine_warmup", {.total_steps = 5},
      {1.0, 0.9045084971874737, 0.6545084971874737, 0.34549150281252633, 0.09549150281252633, 0.0});
  expect_factors("cosine_warmup", {.warmup_steps = 3, .total_steps = 10, .minimum_factor = 0.1},
                 {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.9554359905560885, 0.8305704108364301,
                  0.6501344202803414, 0.44986557971965857, 0.26942958916356996, 0.14456400944391146, 0.1});
}

TEST(Schedule, FollowsItsFormula) {
  const int64_t warmup = 100, total = 2000;
  const auto linear = schedule("linear_warmup", {.warmup_steps = warmup, .total_steps = total});
  const auto cosine = schedule("cosine_warmup", {.warmup_steps = warmup, .total_steps = total});
  for (int64_t step = 0; step <= total; ++step) {
    const double rise = static_cast<double>(step) / warmup;
    const double progress = static_cast<double>(step - warmup) / (total - warmup);
    EXPECT_NEAR(linear->factor(step), step < warmup ? rise : 1 - progress, 1e-15);
    EXPECT_NEAR(cosine->factor(step), step < warmup ? rise : (1 + std::cos(std::numbers::pi * progress)) / 2,
                1e-15);
  }
}

const json& oracle() {
  static const std::string path = WEFT_ORACLES "/schedules/rates.json";
  static const json made = parse_json(read_file(path, 1 << 20), path);
  return made;
}

// A scheduler on an SGD optimizer, for one case of the oracle.
Scheduler make_scheduler(const json& one, Optimizer& optimizer) {
  json options = one.at("options");
  options["total_steps"] = oracle().at("total_steps");
  optimizer = Optimizer("sgd", {{"weight"}}, {{"lr", oracle().at("lr").get<double>()}, {"momentum", 0.9}});
  return Scheduler(optimizer, make_schedule(one.at("schedule").get<std::string>(), options));
}

void advance(Scheduler& scheduler) {
  if (scheduler.schedule().follows_metric())
    scheduler.step(oracle().at("metrics").at(static_cast<size_t>(scheduler.last_step())).get<double>());
  else
    scheduler.step();
}

// Compares learning rate and momentum with those of the case. `step` is that of the scheduler.
void expect_rate(const json& one, Optimizer& optimizer, size_t step) {
  const json& wanted = one.at("rates").at(step);
  const Hyper& options = optimizer.groups()[0].options;
  const std::string what = one.at("schedule").get<std::string>() + " " + one.at("options").dump() + " step " +
                           std::to_string(step);
  EXPECT_NEAR(options.at("lr"), wanted.is_array() ? wanted[0].get<double>() : wanted.get<double>(), 1e-14)
      << what;
  EXPECT_NEAR(options.at("momentum"), wanted.is_array() ? wanted[1].get<double>() : 0.9, 1e-14) << what;
}

TEST(Schedule, EqualsTheOracle) {
  std::set<std::string> tested;
  for (const json& one : oracle().at("cases")) {
    Optimizer optimizer;
    Scheduler scheduler = make_scheduler(one, optimizer);
    for (size_t step = 0; step < one.at("rates").size(); ++step, advance(scheduler))
      expect_rate(one, optimizer, step);
    tested.insert(one.at("schedule").get<std::string>());
  }
  for (const std::string& name : schedule_names()) EXPECT_TRUE(tested.contains(name)) << name;
}

TEST(Schedule, GoesOnFromItsSavedState) {
  for (const json& one : oracle().at("cases")) {
    Optimizer first, second;
    Scheduler saved = make_scheduler(one, first), loaded = make_scheduler(one, second);
    for (int step = 0; step < 11; ++step) advance(saved);
    loaded.restore(saved.state());
    loaded.seek(saved.last_step());
    for (size_t step = 11; step < one.at("rates").size(); ++step, advance(loaded))
      expect_rate(one, second, step);
  }
}

TEST(Schedule, RefusesWhatItDoesNotHave) {
  EXPECT_ERROR(schedule("step", {.more = R"({"gama": 0.5})"}), WEFT_INVALID_ARGUMENT, "schedule step",
               "did you mean \"gamma\"");
  EXPECT_ERROR(schedule("step", {.more = R"({"step_size": 0})"}), WEFT_INVALID_ARGUMENT, "step_size is 0");
  EXPECT_ERROR(schedule("step", {.warmup_steps = 2}), WEFT_INVALID_ARGUMENT, "no warm-up", "step_warmup");
  EXPECT_ERROR(schedule("one_cycle", {.warmup_steps = 2, .total_steps = 9}), WEFT_INVALID_ARGUMENT,
               "pct_start");
  EXPECT_ERROR(schedule("multi_step", {}), WEFT_INVALID_ARGUMENT, "milestones must");
  for (const char* list : {"[]", "[3, 1]", "[0.5]", "{}"})
    EXPECT_ERROR(schedule("multi_step", {.more = std::string(R"({"milestones": )") + list + "}"}),
                 WEFT_INVALID_ARGUMENT, "milestones are", "ascending");
  EXPECT_ERROR(schedule("plateau", {.more = R"({"factor": 1})"}), WEFT_INVALID_ARGUMENT, "factor is 1");
  EXPECT_ERROR(schedule("plateau", {.more = R"({"mode": "least"})"}), WEFT_INVALID_ARGUMENT, "mode", "min");
}

TEST(Scheduler, WantsAMetricOfThoseAloneThatFollowOne) {
  Optimizer adamw = AdamW({{"weight"}});
  Scheduler plateau(adamw, schedule("plateau", {})), constant(adamw, schedule("constant", {}));
  EXPECT_ERROR(plateau.step(), WEFT_FAILED_PRECONDITION, "plateau", "step(metric)");
  EXPECT_ERROR(constant.step(1.0), WEFT_FAILED_PRECONDITION, "constant", "no metric");
  EXPECT_ERROR(plateau.restore("{}"), WEFT_INVALID_ARGUMENT, "schedule plateau");
  EXPECT_ERROR(constant.restore("{}"), WEFT_INVALID_ARGUMENT, "constant has", "no state");
}

TEST(Scheduler, MovesTheMomentumThatThereIs) {
  const auto cycle = schedule("one_cycle", {.total_steps = 10});
  Optimizer adamw = AdamW({{"weight"}}), adafactor("adafactor", {{"weight"}}), lars("lars", {{"weight"}});
  Scheduler(adamw, cycle);
  EXPECT_EQ(adamw.groups()[0].options.at("beta1"), 0.95);
  Scheduler(lars, cycle);
  EXPECT_EQ(lars.groups()[0].options.at("momentum"), 0.95);
  Scheduler(adafactor, schedule("one_cycle", {.total_steps = 10, .more = R"({"cycle_momentum": false})"}));
  EXPECT_EQ(adafactor.groups()[0].options.at("beta1"), 0);
  Optimizer step_only("sgd", {{"weight"}});
  Scheduler(step_only, cycle);
  EXPECT_EQ(step_only.groups()[0].options.at("momentum"), 0.95);
}

TEST(Schedule, StaysWhereItEnded) {
  for (const int64_t step : {10, 11, 25}) {
    EXPECT_EQ(schedule("linear_warmup", {.warmup_steps = 3, .total_steps = 10})->factor(step), 0);
    EXPECT_EQ(schedule("cosine_warmup", {.total_steps = 10, .minimum_factor = 0.25})->factor(step), 0.25);
    EXPECT_EQ(schedule("linear_warmup", {.warmup_steps = 10, .total_steps = 10})->factor(step),
              step == 10 ? 1 : 0);
    EXPECT_EQ(schedule("constant", {.total_steps = 10})->factor(step), 1);
  }
}

TEST(Scheduler, NeedsAnOptimizerAndASchedule) {
  Optimizer none, adamw = AdamW({{"weight"}});
  EXPECT_ERROR(Scheduler(none, schedule("constant", {})), WEFT_INVALID_ARGUMENT, "no optimizer");
  EXPECT_ERROR(Scheduler(adamw, nullptr), WEFT_INVALID_ARGUMENT, "no schedule");
  EXPECT_ERROR(Scheduler().step(), WEFT_FAILED_PRECONDITION, "an optimizer");
}

TEST(Scheduler, SetsTheRateOfEveryGroup) {
  Optimizer optimizer("adamw", std::vector<Group>{{{{"a"}}, {{"lr", 0.5}}}, {{{"b"}}, {{"lr", 2.0}}}});
  Scheduler scheduler(optimizer, schedule("linear_warmup", {.warmup_steps = 2, .total_steps = 6}));
  const auto rates = [&] {
    return std::pair(optimizer.groups()[0].options.at("lr"), optimizer.groups()[1].options.at("lr"));
  };
  EXPECT_EQ(scheduler.last_step(), 0);
  EXPECT_EQ(rates(), std::pair(0.0, 0.0));
  scheduler.step();
  EXPECT_EQ(rates(), std::pair(0.25, 1.0));
  Scheduler copy = scheduler;
  copy.step();
  EXPECT_EQ(scheduler.last_step(), 2);
  EXPECT_EQ(rates(), std::pair(0.5, 2.0));
  EXPECT_ERROR(scheduler.seek(-1), WEFT_OUT_OF_RANGE, "step is -1");
  scheduler.seek(5);
  EXPECT_EQ(rates(), std::pair(0.125, 0.5));
  EXPECT_EQ(scheduler.last_step(), 5);
}

}  // namespace
}  // namespace weft::optim
