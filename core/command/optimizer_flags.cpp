#include "command/optimizer_flags.hpp"

#include <fnmatch.h>

#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include "base/options.hpp"
#include "base/text.hpp"
#include "command/arguments.hpp"
#include "optim/schedules.hpp"
#include "weft/nn/model.hpp"

namespace weft::command {

namespace {

struct Given {
  std::string flag;  // as on the command line
  double value;
};

double number(const std::string& word, const std::string& text) {
  if (text == "true" || text == "false") return text == "true" ? 1 : 0;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(WEFT_INVALID_ARGUMENT, "--optimizer-option {}: \"{}\" must be a number, true or false",
         printable(word), printable(text));
  return value;
}

// The flags by the name of the option that they set.
std::map<std::string, Given> given_options(const Settings& arguments) {
  std::map<std::string, Given> options;
  const auto add = [&](const std::string& name, const std::string& flag, double value) {
    if (!options.emplace(name, Given{flag, value}).second)
      fail(WEFT_INVALID_ARGUMENT, "{} sets {}, which another flag sets too; give one of them", flag, name);
  };
  for (const char* name : {"lr", "weight_decay", "momentum", "eps"})
    if (arguments.given(name)) add(name, arguments.called(name), arguments.real(name));
  if (arguments.given("betas")) {
    const std::vector<double> betas = arguments.reals("betas");
    const size_t wanted = arguments.text("optimizer") == "came" ? 3 : 2;
    if (betas.size() != wanted)
      fail(WEFT_INVALID_ARGUMENT, "--betas takes {} numbers, {} say; got {}", wanted == 2 ? "two" : "three",
           wanted == 2 ? "0.9,0.999" : "0.9,0.999,0.9999", betas.size());
    constexpr const char* kPlaces[] = {"the first of --betas", "the second of --betas",
                                       "the third of --betas"};
    for (size_t i = 0; i < betas.size(); ++i) add(fmt::format("beta{}", i + 1), kPlaces[i], betas[i]);
  }
  for (const std::string& word : arguments.words("optimizer_options")) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(WEFT_INVALID_ARGUMENT, "--optimizer-option: \"{}\" is not of the form key=value", printable(word));
    add(word.substr(0, equals), "--optimizer-option " + word, number(word, word.substr(equals + 1)));
  }
  return options;
}

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// Whether a word of --no-decay names the parameter.
bool has_no_decay(const std::string& word, const std::string& name, int64_t dimensions) {
  const bool is_bias = name.ends_with(".bias") || name == "bias";
  if (word == "biases") return is_bias;
  return word == "norms" ? dimensions == 1 && !is_bias : matches(word, name);
}

// Returns the factors of --lr-scale by their patterns, in their order.
std::vector<std::pair<std::string, double>> rate_factors(const Settings& arguments) {
  std::vector<std::pair<std::string, double>> factors;
  for (const std::string& word : arguments.words("lr_scale")) {
    const size_t equals = word.find('=');
    double factor = 0;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data() + (equals + 1), end, factor);
    if (equals == 0 || equals == std::string::npos || error != std::errc() || stop != end || !(factor >= 0) ||
        !std::isfinite(factor))
      fail(WEFT_INVALID_ARGUMENT, "{} {}: must be PATTERN=FACTOR, with a factor of at least 0",
           arguments.called("lr_scale"), printable(word));
    factors.emplace_back(word.substr(0, equals), factor);
  }
  return factors;
}

// Divides the parameters into groups of one decay and one rate, those with the usual ones first.
std::vector<optim::Group> groups_of(const Settings& arguments, const Model& model,
                                    const optim::Hyper& options) {
  const std::vector<std::string> no_decay = arguments.words("no_decay");
  const std::vector<std::pair<std::string, double>> factors = rate_factors(arguments);
  std::vector<bool> used(no_decay.size() + factors.size());
  std::map<std::tuple<bool, bool, double>, std::vector<std::string>> groups;
  const auto parameters = model.module().named_parameters(/*recurse=*/true);
  for (const std::string& name : model.parameters().names) {
    bool decays = true;
    for (size_t i = 0; i < no_decay.size(); ++i)
      if (has_no_decay(no_decay[i], name, parameters[name].dim())) {
        decays = false;
        used[i] = true;
      }
    double factor = 1;
    for (size_t i = factors.size(); i-- > 0;)
      if (matches(factors[i].first, name)) {
        factor = factors[i].second;
        used[no_decay.size() + i] = true;
      }
    groups[{factor != 1, !decays, factor}].push_back(name);
  }
  for (size_t i = 0; i < used.size(); ++i)
    if (const bool of_decay = i < no_decay.size();
        !used[i] && (!of_decay || (no_decay[i] != "norms" && no_decay[i] != "biases")))
      fail(WEFT_NOT_FOUND, "{} {}: no parameter of {} that is trained has such a name, such as {}",
           arguments.called(of_decay ? "no_decay" : "lr_scale"),
           printable(of_decay ? no_decay[i] : factors[i - no_decay.size()].first), model.architecture(),
           model.parameters().names.front());
  std::vector<optim::Group> result;
  for (auto& [kind, names] : groups) {
    const auto& [scaled, undecayed, factor] = kind;
    optim::Hyper own = options;
    if (undecayed) own["weight_decay"] = 0;
    if (scaled) own["lr"] *= factor;
    result.push_back({{std::move(names)}, std::move(own), 0});
  }
  return result;
}

}  // namespace

optim::Optimizer make_optimizer(const Settings& arguments, const Model& model) {
  optim::Hyper options;
  for (const auto& [name, one] : given_options(arguments)) options[name] = one.value;
  const std::string rule = arguments.text("optimizer");
  if (!arguments.given("no_decay") && !arguments.given("lr_scale"))
    return optim::Optimizer(rule, model.parameters(), options);
  // With the rule's defaults, of which a factor needs the rate.
  const optim::Hyper complete = optim::Optimizer(rule, model.parameters(), options).groups().front().options;
  if (arguments.given("no_decay") && !complete.contains("weight_decay"))
    fail(WEFT_INVALID_ARGUMENT, "{}: the optimizer {} has no weight decay; leave it out",
         arguments.called("no_decay"), rule);
  return optim::Optimizer(rule, groups_of(arguments, model, complete));
}

optim::Scheduler make_scheduler(const Settings& arguments, optim::Optimizer& optimizer, int64_t total) {
  const std::string name = arguments.text("lr_scheduler");
  json options = parse_assignments(optim::schedule_options(name), arguments.words("lr_scheduler_options"),
                                   "--lr-scheduler-option: schedule " + name);
  for (const char* key : {"warmup_steps", "total_steps"})
    if (options.contains(key))
      fail(WEFT_INVALID_ARGUMENT, "--lr-scheduler-option {}: give it as {}", key,
           key[0] == 'w' ? "--warmup-steps" : "--steps or --epochs");
  const double ratio = arguments.real("warmup_ratio", 0);
  options["warmup_steps"] = arguments.given("warmup_ratio")
                                ? std::llround(std::ceil(ratio * static_cast<double>(total)))
                                : arguments.integer("warmup_steps");
  options["total_steps"] = total;
  return optim::Scheduler(optimizer, optim::make_schedule(name, options));
}

void check_resumed_flags(const Settings& arguments, optim::Optimizer& optimizer,
                         const optim::Scheduler& schedule, const std::string& folder) {
  const optim::Group& group = optimizer.groups().front();
  for (const auto& [name, one] : given_options(arguments)) {
    if (schedule.schedule().momentum(0) && (name == "momentum" || name == "beta1")) continue;
    const double saved = name == "lr" ? group.initial_lr : group.options.at(name);
    if (one.value != saved)
      fail(WEFT_INVALID_ARGUMENT,
           "{} is {}, but the run saved in {} has {} and continues with it; leave the flag out, or start a "
           "new run from these weights with --model {}",
           one.flag, one.value, folder, saved, folder);
  }
}

}  // namespace weft::command
