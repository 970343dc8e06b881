#include "engine_verb.hpp"

#include <memory>
#include <optional>

#include "base/duration.hpp"
#include "base/environment.hpp"
#include "base/files.hpp"
#include "base/job_options.hpp"
#include "base/text.hpp"
#include "config_file.hpp"
#include "help.hpp"
#include "host/command.h"
#include "host/launch/failure_report.hpp"
#include "host/launch/rank_environment.hpp"
#include "host/launch/run_ranks.hpp"
#include "host/signals.h"
#include "option_words.hpp"

namespace weft::cli {
namespace {

using nlohmann::json;
using Type = JobOption::Type;

constexpr const char* kConfigVariable = "WEFT_CONFIG_TEXT";  // the text of --config, for the ranks of -n

// What help shows in place of a value.
const char* value_name(Type type) {
  switch (type) {
    case Type::kInt:
      return "INT";
    case Type::kFloat:
      return "FLOAT";
    case Type::kInts:
      return "INT,...";
    case Type::kFloats:
      return "FLOAT,...";
    default:
      return "TEXT";
  }
}

// One verb while the command line is read and performed.
class EngineVerb {
 public:
  EngineVerb(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {
    for (const JobOption* option : job_options_of(name_)) {
      // A file of --config may have what is required.
      const bool is_later = option->required && find_job_option(name_, "config") != nullptr;
      CLI::Option* const added = add(*option, option->flag, option->help() + (is_later ? "; required" : ""));
      added->required(option->required && !is_later);
      added->group(option->common ? "Options" : kNotShown);
      options_.emplace_back(option, added);
      for (const std::string& synonym : option->synonyms) add(*option, synonym, "")->group(kNotShown);
    }
    add_help_all();
  }

  void perform() {
    merge_config();
    forget_switches_that_are_off();
    for (const JobOption* option : job_options_of(name_))
      if (option->required && !arguments_.contains(option->spec.name))
        throw UsageError(option->name_of_flag() + " is required");
    for (const char* name : {"grace", "timeout"})  // the engine converts them again
      if (arguments_.contains(name)) milliseconds(flag_name(name).c_str(), arguments_[name].get<double>());
    with_usage_errors([&] { launch(); });
    json for_engine = json::object();
    for (const auto& [name, value] : arguments_.items())
      if (!find_job_option(name_, name)->by_command) for_engine[name] = value;
    perform_in_engine(name_, for_engine);
  }

 private:
  CLI::Option* add(const JobOption& option, const std::string& flag, const std::string& help) {
    const std::string name = option.spec.name;
    if (option.type == Type::kBool)
      return app_.add_flag_function(
          flag, [this, name](int64_t value) { arguments_[name] = value > 0; }, help);
    if (option.type == Type::kWords || option.type == Type::kAssignments)
      return app_
          .add_option_function<std::vector<std::string>>(
              flag,
              [this, name, flag](const std::vector<std::string>& words) {
                for (const std::string& word : words) require_utf8(flag, word);
                arguments_[name] = words;
              },
              help)
          ->allow_extra_args(false);
    return app_
        .add_option_function<std::string>(
            flag,
            [this, &option, flag](const std::string& text) {
              arguments_[option.spec.name] = read_option(option, text, flag, option.may_be_empty);
            },
            help)
        ->type_name(value_name(option.type));
  }

  // --help shows what people use, --help-all everything in groups.
  void add_help_all() {
    app_.set_help_flag("-h,--help", "Print this help");
    app_.add_flag_callback(
            "--help-all",
            [this] {
              for (const auto& [option, added] : options_) added->group(option->title);
              throw CLI::CallForHelp();
            },
            "Print all options, in groups")
        ->trigger_on_parse();
  }

  // Adds what the file of --config gives and flags do not.
  void merge_config() {
    if (!arguments_.contains("config")) return;
    if (arguments_.contains("booster"))
      throw UsageError("--config and --booster exclude each other; give one");
    const std::string path = arguments_["config"];
    if (path.empty()) throw UsageError("--config is empty: give a path, or leave it out");
    config_text_ = launch::is_launched_by_itself() ? environment(kConfigVariable) : std::nullopt;
    if (!config_text_) config_text_ = read_config_file(path);
    json given = read_config(name_, *config_text_, path);
    for (const auto& [name, value] : arguments_.items())
      for (const std::string& other : find_job_option(name_, name)->excludes) given.erase(other);
    for (const auto& [name, value] : given.items()) {
      const JobOption& option = *find_job_option(name_, name);
      bool is_excluded = false;
      for (const std::string& other : option.excludes) is_excluded |= arguments_.contains(other);
      if (option.type == Type::kAssignments)
        add_assignments(value, arguments_[name]);
      else if (!arguments_.contains(name) && !is_excluded)
        arguments_[name] = value;
    }
  }

  // `--flip=false` turns off what a file turns on, and is as if nothing were given.
  void forget_switches_that_are_off() {
    for (const JobOption* option : job_options_of(name_))
      if (option->type == Type::kBool && arguments_.value(option->spec.name, true) == false)
        arguments_.erase(option->spec.name);
  }

  static std::string read_config_file(const std::string& path) try {
    return read_file(path, kLargestConfig);
  } catch (const Error& error) {
    fail(error.status(), "--config: {}", error.what());
  }

  // Adds the key=value of the file whose keys no flag gives.
  static void add_assignments(const json& from_file, json& words) {
    json all = json::array();
    const auto key_of = [](const json& word) {
      const std::string text = word;
      return text.substr(0, text.find('='));
    };
    for (const json& word : from_file) {
      bool is_given = false;
      for (const json& flag : words) is_given |= key_of(flag) == key_of(word);
      if (!is_given) all.push_back(word);
    }
    for (const json& flag : words) all.push_back(flag);
    words = std::move(all);
  }

  // Starts the ranks of -n and ends the command, unless there is nothing to start.
  void launch() {
    const JobOption* const ranks = find_job_option(name_, "nproc_per_node");
    if (ranks == nullptr) return;
    std::optional<int> num_ranks;
    if (arguments_.contains("nproc_per_node")) num_ranks = arguments_["nproc_per_node"].get<int>();
    const bool has_grace = arguments_.contains("grace");
    if (has_grace && find_job_option(name_, "grace")->by_command && !num_ranks)
      fail(WEFT_INVALID_ARGUMENT,
           "--grace is for the ranks that -n starts, but -n is not given; other launchers have a grace of "
           "their own");
    // One rank needs a launcher only to be given a grace.
    if (!launch::must_launch(num_ranks) && !(has_grace && num_ranks && !launch::is_launched_by_itself()))
      return;
    launch::RunOptions options;
    options.num_ranks = *num_ranks;
    options.verb = name_;
    if (has_grace) options.grace = milliseconds("--grace", arguments_["grace"].get<double>());
    if (config_text_) options.environment.push_back(fmt::format("{}={}\n", kConfigVariable, *config_text_));
    weft_signals_end();  // the launcher takes them itself
    throw Exit{launch::run_self(options)};
  }

  CLI::App& app_;
  std::string name_;
  std::vector<std::pair<const JobOption*, CLI::Option*>> options_;
  json arguments_ = json::object();
  std::optional<std::string> config_text_;
};

}  // namespace

void add_engine_verb(CLI::App& parent, const std::string& name, const std::string& description,
                     const std::string& footer, const std::string& engine_verb) {
  CLI::App* const app = parent.add_subcommand(name, description);
  app->footer(footer);
  app->callback([verb = std::make_shared<EngineVerb>(*app, engine_verb)] { verb->perform(); });
}

std::chrono::milliseconds milliseconds(const char* flag, double seconds) {
  return with_usage_errors([&] { return milliseconds_of(flag, seconds); });
}

void fail_verb(weft_status status, const std::string& text) {
  const launch::RankEnvironment ranks = launch::read_rank_environment();
  if (ranks.world_size == 1 && !launch::has_report_channel()) throw Error(status, text);
  launch::report_failure(ranks.rank, status, text);
  throw Exit{1};
}

void perform_in_engine(const std::string& verb, const json& arguments) {
  const std::string text = arguments.dump();
  weft_error* const error = weft_error_create();
  int32_t code = 0;
  const weft_status status = weft_command(borrow(verb), borrow(text), &code, error);
  const std::string failure(view(weft_error_text(error)));
  weft_error_destroy(error);
  if (status == WEFT_OK) throw Exit{code};
  fail_verb(status, failure);
}

}  // namespace weft::cli
