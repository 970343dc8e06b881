#include "command/recipe.hpp"

#include <array>
#include <string_view>

#include "base/text.hpp"
#include "opening/model_state.hpp"

namespace weft::command {

using nlohmann::json;

namespace {

// The usual settings for AdamW: of a trained model after Devlin et al. 2019, appendix A.3, of a new one after
// Brown et al. 2020, appendix B.
json settings_of(const std::string& recipe) {
  if (recipe == "finetune")
    return {{"lr", 2e-5},          {"weight_decay", 0.01}, {"lr_scheduler", "linear_warmup"},
            {"warmup_ratio", 0.1}, {"max_grad_norm", 1.0}, {"no_decay", {"norms", "biases"}}};
  return {{"lr", 3e-4},
          {"weight_decay", 0.1},
          {"betas", {0.9, 0.95}},
          {"lr_scheduler", "cosine_warmup"},
          {"warmup_ratio", 0.02},
          {"max_grad_norm", 1.0},
          {"no_decay", {"norms", "biases"}}};
}

}  // namespace

Settings with_recipe(const Settings& arguments) {
  if (!arguments.given("recipe")) return arguments;
  constexpr std::array<std::string_view, 4> kOptimizers = {"adamw", "hybrid_adam", "cpu_adam", "fused_adam"};
  const std::string recipe = arguments.text("recipe"), optimizer = arguments.text("optimizer");
  if (std::find(kOptimizers.begin(), kOptimizers.end(), optimizer) == kOptimizers.end())
    fail(WEFT_INVALID_ARGUMENT, "{} {} is for {}, but {} is {}; give the settings by themselves",
         arguments.called("recipe"), recipe, fmt::join(kOptimizers, ", "), arguments.called("optimizer"),
         optimizer);
  json given = arguments.all();
  const json settings = settings_of(recipe);
  for (const auto& [name, value] : settings.items()) {
    const std::string schedule = arguments.text("lr_scheduler");
    const bool warms_up =
        !arguments.given("lr_scheduler") || schedule == "constant" || schedule.ends_with("_warmup");
    const bool other_warmup = name == "warmup_ratio" && (arguments.given("warmup_steps") || !warms_up);
    if (!given.contains(name) && !other_warmup) given[name] = value;
  }
  return {arguments.user(), std::move(given), arguments.name()};
}

void say_usual_rate(const Settings& arguments, const Model& model, const World& world) {
  if (model.shared().weights.empty() || arguments.given("resume") || arguments.given("lr") ||
      arguments.given("lr_scheduler") || arguments.given("adapter"))
    return;
  world.print_on_master(fmt::format(
      "the weights of {} go on with the optimizer's own learning rate, which is for new models: constant, "
      "{}; --recipe finetune takes a low one that rises and falls",
      model.shared().weights, arguments.real("max_grad_norm") > 0 ? "clipped" : "without clipping"));
}

}  // namespace weft::command
