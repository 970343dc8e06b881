#include <weft/runtime.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <weft/error.hpp>

#include "base/text.hpp"
#include "verbs.hpp"

namespace weft::cli {
namespace {

constexpr int kFailure = 1;
constexpr int kUsageError = 2;

// The verbs on the command line as far as they were understood: "plugins show".
std::string verb_of(const CLI::App& application) {
  std::string verb;
  for (const CLI::App* app = &application; !app->get_subcommands().empty();) {
    app = app->get_subcommands().front();
    verb += (verb.empty() ? "" : " ") + app->get_name();
  }
  return verb;
}

// The first line is whole in itself; the others are indented.
int print_error(const CLI::App& application, const std::string& text, int code) {
  const std::string verb = verb_of(application);
  std::string message = verb.empty() ? "weft: " : "weft: " + verb + ": ";
  for (const char c : text) {
    message += c;
    if (c == '\n') message += "      ";
  }
  std::fprintf(stderr, "%s\n", message.c_str());
  return code;
}

std::string unknown_verb_hint(const CLI::App& application, const std::vector<std::string>& words) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : application.get_subcommands({})) verbs.push_back(verb->get_name());
  if (words.empty() || words.front().starts_with("-")) return "";
  if (std::find(verbs.begin(), verbs.end(), words.front()) != verbs.end()) return "";
  return fmt::format("there is no verb \"{}\"{}\nVerbs: {}; `weft --help` tells more",
                     printable(words.front()), did_you_mean(words.front(), verbs), fmt::join(verbs, ", "));
}

int run(int argc, char** argv) {
  CLI::App application("Weft: distributed training of transformer models on libtorch", "weft");
  application.set_version_flag("--version", "weft " + std::string(view(weft_version())));
  application.require_subcommand(1);
  application.footer("`weft VERB --help` shows the flags of a verb and an example.");
  add_plugins(application);
  add_run(application);

  try {
    application.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& success) {  // --help, --version
    return application.exit(success);
  } catch (const CLI::ParseError& error) {
    const std::string hint = unknown_verb_hint(application, std::vector<std::string>(argv + 1, argv + argc));
    return print_error(application, hint.empty() ? error.what() : hint, kUsageError);
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
  return weft::cli::run(argc, argv);
}
