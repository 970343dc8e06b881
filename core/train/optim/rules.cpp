// Finds rules by name and completes their options.
#include "optim/rules.hpp"

#include <cmath>

#include "base/text.hpp"
#include "weft/optim/optimizer.hpp"

namespace weft::optim {

namespace {

std::vector<std::shared_ptr<const Rule>> all_rules() {
  return {sgd_rule(),  adam_rule(), adamw_rule(), hybrid_adam_rule(), cpu_adam_rule(), fused_adam_rule(),
          lamb_rule(), lars_rule(), lion_rule(),  adafactor_rule(),   came_rule()};
}

}  // namespace

std::shared_ptr<const Rule> rule(std::string_view name) {
  for (std::shared_ptr<const Rule>& rule : all_rules()) {
    if (rule->name() == name) return rule;
  }
  const std::vector<std::string> names = rule_names();
  fail(WEFT_NOT_FOUND, "no optimizer is called \"{}\"{}; there are: {}", printable(name),
       did_you_mean(name, names), fmt::join(names, ", "));
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const auto& rule : all_rules()) names.push_back(rule->name());
  return names;
}

std::vector<int64_t> state_shape(StateKind kind, at::IntArrayRef shape) {
  std::vector<int64_t> result = shape.vec();
  if (kind == StateKind::kScalar) return {};
  if (kind == StateKind::kRow) result.pop_back();
  if (kind == StateKind::kColumn) result.erase(result.end() - 2);
  return result;
}

at::ScalarType computing_dtype(at::ScalarType dtype) {
  return at::isReducedFloatingType(dtype) ? at::kFloat : dtype;
}

void require_finite(const Rule& rule, const std::string& name, double value) {
  if (!std::isfinite(value))
    fail(WEFT_INVALID_ARGUMENT, "optimizer {}: {} is {}, must be a finite number", rule.name(), name, value);
}

Hyper complete(const Rule& rule, Hyper given) {
  Hyper options = rule.defaults();
  for (const auto& [name, value] : given) {
    const auto known = options.find(name);
    if (known == options.end()) {
      std::vector<std::string> names;
      for (const auto& option : rule.defaults()) names.push_back(option.first);
      fail(WEFT_INVALID_ARGUMENT, "optimizer {}: no option \"{}\"{}; it has: {}", rule.name(), name,
           did_you_mean(name, names), fmt::join(names, ", "));
    }
    require_finite(rule, name, value);
    known->second = value;
  }
  for (const auto& [name, value] : options)
    if (std::isnan(value))
      fail(WEFT_INVALID_ARGUMENT, "optimizer {}: {} must be given, it has no default", rule.name(), name);
  rule.check(options);
  return options;
}

Optimizer SGD(Parameters parameters, const SGDOptions& options) {
  return Optimizer("sgd", std::move(parameters),
                   {{"lr", options.lr},
                    {"momentum", options.momentum},
                    {"dampening", options.dampening},
                    {"weight_decay", options.weight_decay},
                    {"nesterov", options.nesterov ? 1 : 0}});
}

Optimizer Adam(Parameters parameters, const AdamOptions& options) {
  return Optimizer("adam", std::move(parameters),
                   {{"lr", options.lr},
                    {"beta1", options.beta1},
                    {"beta2", options.beta2},
                    {"eps", options.eps},
                    {"weight_decay", options.weight_decay}});
}

Optimizer AdamW(Parameters parameters, const AdamWOptions& options) {
  return Optimizer("adamw", std::move(parameters),
                   {{"lr", options.lr},
                    {"beta1", options.beta1},
                    {"beta2", options.beta2},
                    {"eps", options.eps},
                    {"weight_decay", options.weight_decay}});
}

}  // namespace weft::optim
