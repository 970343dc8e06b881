// The rules by name, and their options.
#include "optim/rules.hpp"

#include <cmath>

#include "base/text.hpp"
#include "optim/rules_adam.hpp"
#include "optim/rules_sgd.hpp"

namespace weft::optim {

namespace {

std::vector<std::shared_ptr<const Rule>> all_rules() {
  return {sgd_rule(), adam_rule(), adamw_rule()};
}

}  // namespace

std::shared_ptr<const Rule> rule(std::string_view name) {
  for (std::shared_ptr<const Rule>& rule : all_rules()) {
    if (rule->name() == name) return rule;
  }
  const std::vector<std::string> names = rule_names();
  fail(WEFT_NOT_FOUND, "no optimizer is called \"{}\"{}; there are: {}", name, did_you_mean(name, names),
       fmt::join(names, ", "));
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const auto& rule : all_rules()) names.push_back(rule->name());
  return names;
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
    if (!std::isfinite(value)) {
      fail(WEFT_INVALID_ARGUMENT, "optimizer {}: {} is {}, must be a finite number", rule.name(), name,
           value);
    }
    known->second = value;
  }
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
