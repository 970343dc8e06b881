#include <weft/runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <sstream>
#include <string>
#include <weft/error.hpp>

#include "base/text.hpp"
#include "help.hpp"
#include "host/launch/early_exit.hpp"
#include "host/launch/rank_signals.hpp"
#include "host/signals.h"
#include "standard_output.hpp"
#include "verbs.hpp"

namespace weft::cli {
namespace {

constexpr int kFailure = 1;
constexpr int kUsageError = 2;

// Returns the last verb of the command line that CLI11 recognized.
const CLI::App* deepest_verb(const CLI::App& application) {
  const CLI::App* app = &application;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

// Returns the path of that verb: "plugins show".
std::string verb_of(const CLI::App& application) {
  std::string verb;
  for (const CLI::App* app = deepest_verb(application); app != &application; app = app->get_parent()) {
    verb = app->get_name() + (verb.empty() ? "" : " " + verb);
  }
  return verb;
}

// Prints an error to stderr, its second and later lines indented and its control characters escaped: a
// terminal would obey them. Returns `code`.
int print_error(const CLI::App& application, const std::string& text, int code) {
  const std::string verb = verb_of(application);
  std::string message = verb.empty() ? "weft: " : "weft: " + verb + ": ";
  for (const char& c : text) message += c == '\n' ? "\n      " : printable({&c, 1});
  std::fprintf(stderr, "%s\n", message.c_str());
  return code;
}

// Returns the message of a parse error; suggests the most similar verb or flag for an unknown one.
std::string explain(const CLI::App& application, const CLI::ParseError& error,
                    const std::vector<std::string>& words) {
  const CLI::App* app = deepest_verb(application);
  std::vector<std::string> verbs, flags;
  for (const CLI::App* verb : app->get_subcommands({})) verbs.push_back(verb->get_name());
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_description().empty()) continue;  // an older word
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  const std::string list = fmt::format("\nVerbs: {}; `weft VERB --help` tells more", fmt::join(verbs, ", "));
  const bool needs_verb = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !verbs.empty();
  const bool has_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  for (const std::string& word : words) {
    const bool is_unknown = std::string_view(error.what()).find(word) != std::string_view::npos && has_extra;
    const bool is_verb =
        app->get_name() == word || (app->get_parent() && app->get_parent()->get_name() == word);
    if (!is_unknown && (!needs_verb || is_verb)) continue;
    if (word.starts_with("-")) {
      const std::string flag = word.substr(0, word.find('='));
      return fmt::format("there is no flag {}{}", printable(flag), did_you_mean(flag, flags));
    }
    if (!verbs.empty()) {
      return fmt::format("there is no verb \"{}\"{}{}", printable(word), did_you_mean(word, verbs), list);
    }
  }
  return needs_verb ? "a verb is missing" + list : error.what();
}

// Refuses a flag of `verb` that has nothing after its =, or that is followed by another flag in place of its
// value: CLI11 would take the next word as the value, so `--metrics --output out` would write a file
// "--output" and save nothing.
void require_values(const CLI::App& verb, std::span<const std::string> words) {
  const auto flag_named = [&verb](const std::string& word) {
    return word.starts_with("-") ? verb.get_option_no_throw(word.substr(0, word.find('='))) : nullptr;
  };
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const CLI::Option* const option = flag_named(words[i]);
    if (!option && verb.get_prefix_command() && !words[i].starts_with("-")) return;  // words of a program
    if (!option || option->get_items_expected_max() == 0) continue;
    const size_t equals = words[i].find('=');
    if (equals != std::string::npos && equals + 1 == words[i].size()) {
      throw UsageError(
          fmt::format("{} needs a value, but nothing follows its =", words[i].substr(0, equals)));
    }
    if (equals != std::string::npos || i + 1 == words.size()) continue;
    const std::string& value = words[++i];
    if (flag_named(value))
      throw UsageError(fmt::format("{0} needs a value, but {1} follows\nIf that is the value: {0}={1}",
                                   words[i - 1], printable(value)));
  }
}

// Lets each verb below `app` look at its words before CLI11 does.
void check_values(CLI::App& app, const std::vector<std::string>& words) {
  for (CLI::App* const verb : app.get_subcommands({})) {
    verb->preparse_callback(
        [verb, &words](size_t count) { require_values(*verb, std::span(words).last(count)); });
    check_values(*verb, words);
  }
}

int run(int argc, char** argv) {
  CLI::App application("Weft: distributed training of transformer models on libtorch", "weft");
  application.set_version_flag("--version", "weft " + std::string(view(weft_version())));
  application.formatter(std::make_shared<Help>());
  application.require_subcommand(1);
  application.footer("`weft VERB --help` shows the flags of a verb and an example.");
  add_train(application);
  add_evaluate(application);
  add_predict(application);
  add_forward(application);
  add_generate(application);
  add_run(application);
  add_plugins(application);
  add_plan(application);
  add_check(application);
  add_convert(application);
  add_tokenizer(application);

  const std::vector<std::string> words(argv + 1, argv + argc);
  check_values(application, words);
  try {
    int code = 0;
    try {
      application.parse(argc, argv);
    } catch (const CLI::Success& success) {  // --help, --version
      std::ostringstream text;
      code = application.exit(success, text, text);
      std::fputs(text.str().c_str(), stdout);
    } catch (const Exit& exit) {
      code = exit.code;
    }
    finish_output();
    return code;
  } catch (const CLI::ParseError& error) {
    return print_error(application, explain(application, error, words), kUsageError);
  } catch (const UsageError& error) {
    return print_error(application, error.what(), kUsageError);
  } catch (const Exit& exit) {
    return exit.code;
  } catch (const std::exception& error) {
    return print_error(application, error.what(), kFailure);
  }
}

}  // namespace
}  // namespace weft::cli

int main(int argc, char** argv) {
  weft_signals_begin();
  weft::ignore_file_size_signal();
  weft::cli::begin_output();
  const weft::launch::ExitGuard until_done;
  return weft::cli::run(argc, argv);
}
