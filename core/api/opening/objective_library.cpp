#include "opening/objective_library.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "opening/library_options.hpp"
#include "opening/model_data.hpp"
#include "plugins.hpp"
#include "weft/define_objective.hpp"

namespace weft {

namespace {

constexpr const char* kKind = "objective";

std::string who_learns(const std::string& name) {
  return fmt::format("objective {}", plugin_name(name));
}

// Loads the library, and says what else there is if there is none.
weft_loaded load(const std::string& name, const std::string& called) {
  const std::vector<std::string> provided = provided_names(kKind), own = objectives_of_labels();
  const std::string wanted = plugin_name(name);
  if (std::find(provided.begin(), provided.end(), wanted) != provided.end()) return load_plugin(kKind, name);
  std::vector<std::string> known = own;
  known.insert(known.end(), provided.begin(), provided.end());
  fail(WEFT_INVALID_ARGUMENT,
       "{} is \"{}\", must be {}, or the name of an installed library of objectives, {}{}", called,
       printable(name, 60), fmt::join(own, ", "),
       provided.empty() ? "of which there is none" : fmt::format("{}", fmt::join(provided, ", ")),
       did_you_mean(wanted, known));
}

}  // namespace

bool makes_labels(std::string_view objective) {
  const std::vector<std::string> own = objectives_of_labels();
  return std::find(own.begin(), own.end(), objective) != own.end();
}

std::string objective_options(const std::string& name, const std::vector<std::string>& words,
                              const std::string& called) {
  load(name, called);
  return library_options(kKind, name, who_learns(name), words).dump();
}

ChosenLoss open_objective(const std::string& name, const std::string& options, const Model& model) {
  const nlohmann::json given = parse_json(options, "objective_options");
  if (!given.is_object())
    fail(WEFT_INVALID_ARGUMENT, "objective_options is {}, must be an object", printable(options, 60));
  if (name.empty()) {
    if (!given.empty())
      fail(WEFT_INVALID_ARGUMENT, "objective_options is given, but has no effect without objective");
    return {};
  }
  if (makes_labels(plugin_name(name)))
    fail(WEFT_INVALID_ARGUMENT,
         "booster: objective is {}, which makes labels and is no loss of a library: open the data with it "
         "(weft_data_open, with_objective), and leave it out here",
         name);
  const weft_loaded loaded = load(name, "booster: objective");
  const Options complete(options_of_library(loaded), given, who_learns(name));
  const ObjectiveRequest request = {.name = plugin_name(name),
                                    .options = plugin::Options(complete.data(), complete.size()),
                                    .architecture = model.architecture(),
                                    .config = model.config()};
  std::shared_ptr<const TrainingLoss> loss =
      plugin_factory<ObjectiveFactory>(loaded, kObjectiveFactory).make(request);
  if (loss == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "{} {}: it made no loss for \"{}\"", view(loaded.id), view(loaded.version),
         request.name);
  return {request.name, fmt::format("{} {}", request.name, complete.to_json().dump()), std::move(loss)};
}

}  // namespace weft
