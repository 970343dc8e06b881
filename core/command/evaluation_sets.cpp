#include "command/evaluation_sets.hpp"

#include <algorithm>
#include <filesystem>

#include "base/job_options.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "evaluation/answer_measures.hpp"
#include "loader/fingerprint.hpp"
#include "opening/model_state.hpp"
#include "opening/text_bytes.hpp"

namespace weft::command {

namespace fs = std::filesystem;

namespace {

// Returns the options of `arguments` that `weft evaluate` has, too, and that say what is read and
// measured.
json options_of_evaluation(const Settings& arguments) {
  json given = json::object();
  for (const auto& [name, value] : arguments.all().items()) {
    const JobOption* const option = find_job_option("evaluate", name);
    if (option == nullptr) continue;
    const bool is_measured = name == "max_answer_tokens" || name == "word_error_rate";
    if (option->group == "model" || option->group == "data" || option->group == "objective" || is_measured)
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

[[noreturn]] void refuse_name(const std::string& called, const std::string& name, const char* reason) {
  fail(WEFT_INVALID_ARGUMENT,
       "{}: \"{}\" cannot be the name of an evaluation set{}; give another as NAME=PATH, of letters, digits, "
       "\"_\", \"-\" and \".\"",
       called, printable(name), reason);
}

void check_name(const std::string& name, const std::string& called, const std::string& word) {
  const bool plain = !name.empty() && name.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == std::string::npos;
  if (!plain) refuse_name(called + " " + printable(word), name, "");
  if (name == "ema") refuse_name(called + " " + printable(word), name, ", because averaged weights have it");
}

EvaluationSet open_set(const std::string& name, const Settings& settings, const Model& model,
                       const Booster& booster) {
  const DataOpener opener =
      data_of(settings, model, booster.world(), booster.options().seed, data::Part::kHeldOut);
  const std::shared_ptr<data::Dataset> dataset = with_text_bytes(model, opener.labelled());
  require_same_data(*dataset, booster.world());
  const data::Loader loader(dataset,
                            in_order(booster, settings.integer("batch_size"), opener.loader_workers("data")));
  return {name, loader, measures_of(settings, model, loader)};
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

std::vector<std::shared_ptr<SetMeasures>> measures_of(const Settings& arguments, const Model& model,
                                                      const data::Loader& set) {
  std::vector<std::shared_ptr<SetMeasures>> measures;
  if (questions_of(set) != nullptr)
    measures.push_back(measure_answers(set, arguments.integer("max_answer_tokens")));
  if (!arguments.flag("word_error_rate")) return measures;
  const std::optional<Tokenizer>& tokenizer = model.shared().tokenizer;
  if (!tokenizer)
    fail(WEFT_INVALID_ARGUMENT,
         "{} compares texts, and there is no tokenizer in the folder of the model: give {}",
         arguments.called("word_error_rate"), arguments.called("tokenizer"));
  measures.push_back(measure_word_errors(set, *tokenizer,
                                         GenerationOptions::load(arguments.text("model"), /*greedy=*/true)));
  return measures;
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
    sets.push_back(open_set("held_out", {"evaluate", given, arguments.name()}, model, booster));
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
    sets.push_back(open_set(set.name, {"evaluate", own, name}, model, booster));
  }
  return sets;
}

void check_set_names(const Settings& arguments, Trainer& trainer) {
  if (arguments.words("evaluation_data").size() < 2) return;
  const std::vector<std::string> keys = trainer.evaluation_keys();
  for (const std::string& key : keys)
    if (const std::string name = key.substr(0, key.find('/'));
        name != key && std::find(keys.begin(), keys.end(), name) != keys.end())
      refuse_name(arguments.called("evaluation_data"), name,
                  ", because a value of the evaluation is called so");
}

}  // namespace weft::command
