#include "command/optimizer_flags.hpp"

#include <charconv>

#include "base/options.hpp"
#include "base/text.hpp"
#include "command/arguments.hpp"
#include "optim/schedules.hpp"

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

}  // namespace

optim::Optimizer make_optimizer(const Settings& arguments, const Model& model) {
  optim::Hyper options;
  for (const auto& [name, one] : given_options(arguments)) options[name] = one.value;
  return optim::Optimizer(arguments.text("optimizer"), model.parameters(), options);
}

optim::Scheduler make_scheduler(const Settings& arguments, optim::Optimizer& optimizer, int64_t total) {
  const std::string name = arguments.text("lr_scheduler");
  json options = parse_assignments(optim::schedule_options(name), arguments.words("lr_scheduler_options"),
                                   "--lr-scheduler-option: schedule " + name);
  for (const char* key : {"warmup_steps", "total_steps"})
    if (options.contains(key))
      fail(WEFT_INVALID_ARGUMENT, "--lr-scheduler-option {}: give it as {}", key,
           key[0] == 'w' ? "--warmup-steps" : "--steps or --epochs");
  options["warmup_steps"] = arguments.integer("warmup_steps");
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
