// Makes jobs of a test model under a strategy, by name.
#pragma once

#include <ATen/ATen.h>
#include <weft/booster.hpp>

#include <map>
#include <string>

#include "device/device.hpp"
#include "opening/model_state.hpp"
#include "support/tolerances.hpp"
#include "train/training/toy_model.hpp"
#include "training/training.hpp"

namespace weft::test {

struct JobOptions {
  std::string strategy = "none";
  std::string options = "{}";
  std::string recompute = "off";
  int64_t accumulate = 1;
  double max_grad_norm = 0;
  std::string precision = "fp32";
  std::string mixed_precision;
};

inline BoosterOptions booster_options_of(const JobOptions& options) {
  BoosterOptions chosen;
  chosen.strategy = options.strategy;
  chosen.options = options.options;
  chosen.recompute = options.recompute;
  chosen.accumulate = options.accumulate;
  chosen.max_grad_norm = options.max_grad_norm;
  chosen.precision = options.precision;
  chosen.mixed_precision = options.mixed_precision;
  chosen.device = device::current().kind().name;
  return chosen;
}

inline Job boost(World world, Model model, const JobOptions& options, optim::Optimizer optimizer) {
  Booster booster(booster_options_of(options), std::move(world));
  return booster.boost(std::move(model), std::move(optimizer));
}

// Boosts with the rule "sgd" and a learning rate of 1, so that one step subtracts the gradient from the
// values, or with "adamw".
inline Job boost(World world, Model model, const JobOptions& options = {}, const std::string& rule = "sgd") {
  optim::Optimizer optimizer = rule == "sgd"
                                   ? optim::SGD(model.parameters(), {.lr = 1})
                                   : optim::AdamW(model.parameters(), {.lr = 1e-2, .weight_decay = 0.1});
  return boost(std::move(world), std::move(model), options, std::move(optimizer));
}

inline World one_rank() {
  return launch(0, 1, "localhost", 1);
}

inline Model toy(const JobOptions& options = {}, const std::string& keys = "") {
  return Model::adopt(make_toy(keys, precision_dtype(options.precision)));
}

using Tensors = std::map<std::string, at::Tensor>;

inline Tensors values_of(const Job& job) {
  Tensors values;
  for (const auto& item : job.model.module().named_parameters())
    values[item.key()] = item.value().detach().clone();
  return values;
}

// Returns the gradients of one train_step by SGD with a learning rate of 1.
inline Tensors gradients_of_step(Job& job, const Batch& batch) {
  Tensors gradients = values_of(job);
  job.train_step(batch);
  for (auto& [name, value] : values_of(job)) gradients[name] -= value;
  return gradients;
}

inline Tensors grad_fields_of(const Job& job) {
  Tensors gradients;
  for (const auto& item : job.model.module().named_parameters())
    gradients[item.key()] = item.value().grad().defined() ? item.value().grad().clone() : at::Tensor();
  return gradients;
}

inline void expect_near(const Tensors& actual, const Tensors& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(is_near(actual.at(name), tensor, tolerance)) << name;
}

inline void expect_equal(const Tensors& actual, const Tensors& expected) {
  expect_near(actual, expected, 0);
}

}  // namespace weft::test
