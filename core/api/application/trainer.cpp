// weft::Trainer in C.
#include "application/handles.hpp"
#include "application/objects.hpp"
#include "base/error_sink.hpp"
#include "base/job_options.hpp"
#include "base/json.hpp"
#include "base/options.hpp"
#include "base/settings.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "evaluation/answer_measures.hpp"
#include "plugins.hpp"
#include "trainer/chosen_hooks.hpp"
#include "trainer/library_hooks.hpp"

namespace weft::application {

using nlohmann::json;

namespace {

constexpr const char* kCreate = "weft_trainer_create";

// Throws INVALID_ARGUMENT unless the option is not given or an array of texts.
void check_words(const json& settings, const char* name) {
  const json words = settings.value(name, json::array());
  const auto is_text = [](const json& word) { return word.is_string(); };
  if (!words.is_array() || !std::all_of(words.begin(), words.end(), is_text))
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be an array of texts", kCreate, name,
         printable(words.dump(), 80));
}

Settings settings_of(std::string_view options) {
  json given =
      trim(options).empty() ? json::object() : parse_json(options, fmt::format("{}: the options", kCreate));
  if (!given.is_object())
    fail(WEFT_INVALID_ARGUMENT, "{}: the options are {}, must be an object", kCreate, json_kind(given));
  if (const auto every = given.find("evaluate_every"); every != given.end() && every->is_number_integer())
    *every = every->dump();
  const OptionTable table = option_table_of(kCreate);
  for (auto setting = given.begin(); setting != given.end();) {
    check_value(table.at(setting.key(), kCreate), *setting, kCreate);
    // What is null or off is as if it were not given.
    setting = setting->is_null() || *setting == false ? given.erase(setting) : std::next(setting);
  }
  check_words(given, "hook");
  if (!given.value("hook_options", json::object()).is_object())
    fail(WEFT_INVALID_ARGUMENT, "{}: \"hook_options\" is {}, must be an object with keys NAME.KEY", kCreate,
         json_kind(given.at("hook_options")));
  check_settings(kCreate, given, own_name);
  return {kCreate, std::move(given), own_name};
}

std::vector<std::shared_ptr<HookInC>> own_hooks(const weft_trainer_arguments& arguments) {
  std::vector<std::shared_ptr<HookInC>> hooks;
  if (arguments.num_hooks > 0) require(arguments.hooks, kCreate, "hooks");
  for (uint64_t i = 0; i < arguments.num_hooks; ++i) {
    require(arguments.hooks[i], kCreate, fmt::format("hook {}", i).c_str());
    const HookInC checked(*arguments.hooks[i], fmt::format("{}: hook {}", kCreate, i), nullptr);
    hooks.push_back(std::make_shared<HookInC>(*arguments.hooks[i], "hook " + checked.name(), nullptr));
  }
  return hooks;
}

EvaluationSet evaluation_set(const weft_evaluation_set& given, const Booster& booster, const Job& job) {
  const std::string name(text_of_argument(given.name, kCreate, "the name of an evaluation set"));
  const std::string who =
      fmt::format("{}: the data of the evaluation set \"{}\"", kCreate, printable(name, 60));
  if (given.data == nullptr) fail(WEFT_INVALID_ARGUMENT, "{} is null", who);
  const data::Loader& loader = given.data->loader;
  if (loader.options().shuffle)
    fail(WEFT_INVALID_ARGUMENT, "{} is shuffled; open it with \"shuffle\": false", who);
  if (loader.options().drop_last)
    fail(WEFT_INVALID_ARGUMENT, "{} leaves out samples; open it with \"drop_last\": false", who);
  if (job.data && &loader.dataset() == &job.data.dataset())
    fail(WEFT_INVALID_ARGUMENT,
         "{} is that of the job, whose position an evaluation would move; open it again", who);
  EvaluationSet set = {name, loader.for_rank(booster.data_rank(), booster.data_size())};
  if (questions_of(set.data) != nullptr) set.measures.push_back(measure_answers(set.data));
  return set;
}

TrainerOptions options_of(const Settings& settings, const weft_trainer_arguments& arguments,
                          const Booster& booster, const Job& job) {
  TrainerOptions options;
  set_length(settings, options);
  set_evaluation_times(settings, options);
  if (arguments.num_evaluation > 0) require(arguments.evaluation, kCreate, "evaluation");
  for (uint64_t i = 0; i < arguments.num_evaluation; ++i)
    options.evaluation.push_back(evaluation_set(arguments.evaluation[i], booster, job));
  return options;
}

// Returns the trainer with its hooks in their order. Collective.
weft_trainer* make_trainer(Booster& booster, Job& job, const weft_trainer_arguments& arguments) {
  const World& world = booster.world();
  std::optional<Settings> settings;
  std::vector<std::shared_ptr<HookInC>> own;
  TrainerOptions options;
  on_every_rank(world.communicator(), [&] {
    settings.emplace(settings_of(text_of_argument(arguments.options, kCreate, "options")));
    own = own_hooks(arguments);
    options = options_of(*settings, arguments, booster, job);
  });
  require_agreement(world.communicator(), {{"options", settings->all()}});
  require_same_hooks(own, world);
  const std::vector<std::shared_ptr<HookInC>> of_libraries = library_hooks(*settings, world);
  if (!of_libraries.empty()) require_same_plugins(world.communicator());
  const std::shared_ptr<NonFiniteGuard> guard = make_guard(*settings);
  std::shared_ptr<StepRecords> records;
  if (settings->given("metrics") || settings->given("tensorboard")) records = make_records(*settings, world);
  options.hooks.assign(own.begin(), own.end());
  options.hooks.push_back(guard);
  if (settings->flag("progress")) options.hooks.push_back(std::make_shared<Progress>());
  options.hooks.push_back(records);
  options.hooks.insert(options.hooks.end(), of_libraries.begin(), of_libraries.end());
  options.hooks.push_back(make_early_stopping(*settings));
  options.hooks.push_back(make_checkpoints(*settings, booster.options().checkpoint_io, world));
  std::erase(options.hooks, nullptr);
  return new weft_trainer{Trainer(booster, job, std::move(options)), guard, records};
}

// Throws on every rank if the records could not be written to their end. Collective.
void check_records(const weft_trainer& trainer) {
  if (trainer.records == nullptr) return;
  const std::string lost = fmt::format("{}", fmt::join(trainer.records->incomplete(), " and "));
  const std::string text = trainer.trainer.booster().world().communicator().broadcast_text(lost, 0);
  if (!text.empty())
    fail(WEFT_UNAVAILABLE, "weft_trainer_fit: the training has ended, but {} could not be written to the end",
         text);
}

}  // namespace

weft_status trainer_create(weft_booster* booster, weft_job* job, const weft_trainer_arguments* arguments,
                           weft_trainer** own, weft_error* error) {
  return guarded(error, [&] {
    require(booster, kCreate, "booster");
    require(job, kCreate, "job");
    require(arguments, kCreate, "arguments");
    require(own, kCreate, "own");
    const weft_trainer_arguments known =
        known_part(kCreate, *arguments, WEFT_END_OF(weft_trainer_arguments, options));
    *own = make_trainer(booster->booster, job->job, known);
  });
}

weft_status trainer_fit(weft_trainer* trainer, weft_error* error) {
  return guarded(error, [&] {
    require(trainer, "weft_trainer_fit", "trainer");
    if (std::exchange(trainer->has_run, true))
      fail(
          WEFT_FAILED_PRECONDITION,
          "weft_trainer_fit: this trainer has run already; create another one, which goes on where it ended");
    trainer->trainer.fit();
    check_records(*trainer);
    if (trainer->guard && !trainer->guard->stopped().empty())
      fail(WEFT_ABORTED, "weft_trainer_fit: {}", trainer->guard->stopped());
  });
}

weft_status trainer_describe(weft_trainer* trainer, weft_moment* out, weft_error* error) {
  return guarded(error, [&] {
    require(trainer, "weft_trainer_describe", "trainer");
    require(out, "weft_trainer_describe", "out");
    const Trainer& of = trainer->trainer;
    trainer->described = std::make_unique<MomentInC>(of, WEFT_MOMENT_END, of.result().index > 0);
    fill_out("weft_trainer_describe", trainer->described->moment, out);
  });
}

}  // namespace weft::application
