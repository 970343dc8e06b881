#include "opening/model_labels.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "checkpoint/model_files.hpp"
#include "opening/model_state.hpp"
#include "weft/nn/classifiers.hpp"
#include "weft/nn/config_values.hpp"
#include "weft/nn/model.hpp"

namespace weft {

using data::LabelSpace;
using data::Problem;

namespace {

std::string made_up_name(size_t id) {
  return fmt::format("LABEL_{}", id);
}

// Returns whether the names of config.json are those that Hugging Face makes up, or missing.
bool are_made_up(const std::vector<std::string>& names) {
  for (size_t id = 0; id < names.size(); ++id)
    if (names[id] != made_up_name(id)) return false;
  return true;
}

bool are_integers(const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    const size_t sign = name.starts_with('-') ? 1 : 0;
    return name.size() > sign && name.find_first_not_of("0123456789", sign) == name.npos;
  });
}

bool are_same(std::vector<std::string> a, std::vector<std::string> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

std::string listed(const std::vector<std::string>& names) {
  return printable(fmt::format("{}", fmt::join(names, ", ")));
}

// Returns whether the weights that the model begins with have a parameter of its head.
bool has_head(const Model& model) {
  const Model::Shared& shared = model.shared();
  if (shared.weights.empty()) return false;
  const checkpoint::Reader reader(shared.weights);
  const checkpoint::WeightMap map(reader, *shared.module);
  const std::string base = shared.module->base_prefix();
  for (const auto& item : shared.module->named_parameters(true))
    if (!item.key().starts_with(base) && map.find(item.key())) return true;
  return false;
}

// Returns the classes of rows for a head that has classes already.
LabelSpace fitted(LabelSpace space, const nn::Labels& own, const std::string& data,
                  const SettingName& called) {
  const auto refuse = [&](const std::string& text) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: {}, but the head of {} {}; give the labels of the model, or {} for a head that begins with "
         "initial values",
         data, text, own.origin,
         own.count == 1 ? "has one label, a number"
                        : fmt::format("has {} classes{}", own.count,
                                      own.names.empty() ? "" : fmt::format(" ({})", listed(own.names))),
         called("new_head"));
  };
  if (space.problem == Problem::kRegression) {
    if (own.count != 1) refuse("the labels are numbers");
    return space;
  }
  if (own.count == 1) refuse(fmt::format("the labels are {} classes", space.names.size()));
  const bool named = !are_made_up(own.names);
  if (named && are_same(own.names, space.names)) {
    space.names = own.names;
    return space;
  }
  const auto is_id = [&](const std::string& name) {
    return !name.starts_with('-') && name.size() < 10 && std::stoll(name) < own.count;
  };
  if (are_integers(space.names) && !are_integers(own.names) &&
      std::all_of(space.names.begin(), space.names.end(), is_id)) {
    space.integers_are_ids = true;
    if (named || static_cast<int64_t>(space.names.size()) != own.count) {
      space.names = own.names;
      for (size_t id = space.names.size(); id < static_cast<size_t>(own.count); ++id)
        space.names.push_back(made_up_name(id));
    }
    return space;
  }
  if (named) refuse(fmt::format("the classes are {}", listed(space.names)));
  if (static_cast<int64_t>(space.names.size()) != own.count)
    refuse(fmt::format("there are {} classes ({})", space.names.size(), listed(space.names)));
  return space;
}

// Returns the configuration with these labels.
Config with_labels(Config config, const LabelSpace& space, bool of_tokens) {
  nlohmann::ordered_json names = nlohmann::ordered_json::object(), ids = nlohmann::ordered_json::object();
  const std::vector<std::string> all =
      space.problem == Problem::kRegression ? std::vector{made_up_name(0)} : space.names;
  for (size_t id = 0; id < all.size(); ++id) {
    names[std::to_string(id)] = all[id];
    ids[all[id]] = id;
  }
  config = config.with_json("id2label", names.dump()).with_json("label2id", ids.dump());
  if (config.has("num_labels")) config = config.with_json("num_labels", std::to_string(all.size()));
  return of_tokens ? config : config.with("problem_type", name_of(space.problem));
}

// Makes the module again of this configuration.
void remake(const Model& model, const Config& config) {
  Model::Shared& shared = model.shared();
  if (shared.module->config().dump() == config.dump()) return;
  if (!shared.make)
    fail(WEFT_FAILED_PRECONDITION,
         "{} is the application's own model, whose labels data cannot change; make it with the labels of the "
         "data",
         model.architecture());
  shared.module = shared.make(config);
  if (!shared.adapter.empty()) Model(model).adapt(shared.adapter);
}

}  // namespace

LabelSpace labels_of(const Model& model) {
  const nn::Labels own = nn::read_labels(model.config());
  LabelSpace space;
  space.integers_are_ids = true;
  if (!own.problem.empty())
    space.problem = data::problem_named(own.problem);
  else if (own.count == 1)
    space.problem = Problem::kRegression;
  if (space.problem == Problem::kRegression) return space;
  space.names = own.names;
  for (size_t id = space.names.size(); id < static_cast<size_t>(own.count); ++id)
    space.names.push_back(made_up_name(id));
  return space;
}

LabelSpace give_labels(const Model& model, const data::LabelledRows& rows, const WantedLabels& wanted,
                       const SettingName& called) {
  const nn::Labels own = nn::read_labels(model.config());
  const bool keeps_head = !wanted.new_head && has_head(model);
  if (!keeps_head && !model.shared().adapter.empty())
    fail(WEFT_UNIMPLEMENTED,
         "an adapter freezes the head of {}, which begins with initial values and would keep them; train the "
         "head first without {}",
         model.architecture(), called("adapter"));
  const bool of_tokens = model.module().labelled() == nn::Labelled::kTokens;
  std::optional<Problem> problem = wanted.problem;
  if (!problem && keeps_head && !own.problem.empty()) problem = data::problem_named(own.problem);
  if (!problem && keeps_head && own.count == 1) problem = Problem::kRegression;
  LabelSpace space = data::label_space_of(rows, problem);
  if (keeps_head)
    space = fitted(std::move(space), own, rows.name(), called);
  else if (are_same(own.names, space.names))
    space.names = own.names;
  Config config = with_labels(model.config(), space, of_tokens);
  if (wanted.padding && !config.has("pad_token_id")) {
    config = config.with_json("pad_token_id", std::to_string(*wanted.padding));
    // Of a token that also ends texts only the mask tells which it is (make_sequence_classifier).
    if (!config.has("eos_token_id"))
      config = config.with_json("eos_token_id", std::to_string(*wanted.padding));
  }
  remake(model, config);
  model.shared().new_head = wanted.new_head;
  return space;
}

}  // namespace weft
