#include "command/evaluation_sets.hpp"

#include <charconv>
#include <filesystem>
#include <set>

#include "base/job_options.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "loader/fingerprint.hpp"
#include "opening/text_bytes.hpp"

namespace weft::command {

namespace fs = std::filesystem;

namespace {

// Returns the options of `arguments` that `weft evaluate` has, too, and that say what is read.
json options_of_evaluation(const Settings& arguments) {
  json given = json::object();
  for (const auto& [name, value] : arguments.all().items()) {
    const JobOption* const option = find_job_option("evaluate", name);
    if (option == nullptr) continue;
    if (option->group == "model" || option->group == "data" || option->group == "objective")
      given[name] = value;
  }
  return given;
}

struct NamedPath {
  std::string name, path;
};

// Reads NAME=PATH. A path by itself is named after its file.
NamedPath named_path(const std::string& word) {
  const size_t equals = word.find('=');
  std::error_code ignored;
  if (equals == std::string::npos || fs::exists(word, ignored)) {
    fs::path path = fs::path(word).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    return {path.stem().string(), word};
  }
  return {word.substr(0, equals), word.substr(equals + 1)};
}

void check_name(const std::string& name, const std::string& called, const std::string& word) {
  const bool plain = !name.empty() && name.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == std::string::npos;
  static const std::set<std::string> kTaken = {"ema", "loss", "perplexity", "accuracy"};
  if (plain && !kTaken.contains(name)) return;
  fail(WEFT_INVALID_ARGUMENT,
       "{} {}: \"{}\" cannot be the name of an evaluation set{}; give another as NAME=PATH, of letters, "
       "digits, \"_\", \"-\" and \".\"",
       called, printable(word), printable(name),
       plain ? ", because a value of the evaluation is called so" : "");
}

data::Loader open_set(const Settings& settings, const Model& model, const Booster& booster) {
  const DataOpener opener =
      data_of(settings, model, booster.world(), booster.options().seed, data::Part::kHeldOut);
  const std::shared_ptr<data::Dataset> dataset = with_text_bytes(model, opener.labelled());
  require_same_data(*dataset, booster.world());
  return {dataset, in_order(booster, settings.integer("batch_size"), opener.loader_workers("data"))};
}

}  // namespace

data::LoaderOptions in_order(const Booster& booster, int64_t batch_size, int64_t workers) {
  data::LoaderOptions options;
  options.num_workers = workers;
  options.rank = booster.data_rank();
  options.ranks = booster.data_size();
  options.batch_size = (batch_size + options.ranks - 1) / options.ranks * options.ranks;
  return options;
}

void require_same_data(const data::Dataset& dataset, const World& world) {
  if (world.size() == 1) return;
  std::string content;
  on_every_rank(world.communicator(), [&] { content = data::compared_content(dataset); });
  require_agreement(world.communicator(), {{"data", content}, {"objective", dataset.objective()}},
                    {{"data", dataset.name()}});
}

std::vector<EvaluationSet> evaluation_sets(const Settings& arguments, const Model& model,
                                           const Booster& booster) {
  std::vector<EvaluationSet> sets;
  if (!arguments.given("evaluate_every")) return sets;
  const json given = options_of_evaluation(arguments);
  if (!arguments.given("evaluation_data")) {
    sets.push_back({"held_out", open_set({"evaluate", given, arguments.name()}, model, booster)});
    return sets;
  }
  const std::string called = arguments.called("evaluation_data");
  for (const std::string& word : arguments.words("evaluation_data")) {
    const NamedPath set = named_path(word);
    check_name(set.name, called, word);
    for (const EvaluationSet& known : sets)
      if (known.name == set.name)
        fail(WEFT_INVALID_ARGUMENT, "{} {}: two evaluation sets are called \"{}\"; give names as NAME=PATH",
             called, printable(word), set.name);
    json own = given;
    own["data"] = {set.path};
    own.erase("held_out");
    const SettingName name = [&](const std::string& setting) {
      return setting == "data" ? called : arguments.called(setting);
    };
    sets.push_back({set.name, open_set({"evaluate", own, name}, model, booster)});
  }
  return sets;
}

void set_evaluation_times(const Settings& arguments, TrainerOptions& options) {
  const std::string text = arguments.text("evaluate_every");
  if (text.empty()) return;
  if (text == "epoch") {
    options.evaluate_every_epoch = true;
    return;
  }
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, options.evaluate_every);
  if (error != std::errc() || stop != end || options.evaluate_every < 1)
    fail(WEFT_INVALID_ARGUMENT, "{} is \"{}\", must be a number of steps above 0, or epoch",
         arguments.called("evaluate_every"), printable(text));
}

}  // namespace weft::command
