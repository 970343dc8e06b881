#include "base/job_options.hpp"
#include "base/settings.hpp"
#include "base/text.hpp"
#include "command/command.hpp"

namespace weft::command {

namespace {

struct Verb {
  const char* name;
  int (*run)(const Settings& arguments);
  bool joins;  // join_job() checks its arguments, when the ranks have agreed on them
};

constexpr Verb kVerbs[] = {{"train", train, true},
                           {"forward", forward, true},
                           {"evaluate", evaluate, true},
                           {"predict", predict, true},
                           {"generate", generate, true},
                           {"convert", convert, false},
                           {"plan", plan, false},
                           {"tokenizer encode", encode_text, false},
                           {"tokenizer decode", decode_ids, false},
                           {"tokenizer train", train_tokenizer, false}};

}  // namespace

int run(std::string_view name, const nlohmann::json& arguments) {
  if (name == "check") return check(arguments);
  if (name == "plugins validate") return validate(arguments);
  for (const Verb& verb : kVerbs) {
    if (name != verb.name) continue;
    const Settings settings(verb.name, arguments, [&verb](const std::string& option) {
      const JobOption* const declared = find_job_option(verb.name, option);
      return declared ? declared->name_of_flag() : flag_name(option);
    });
    if (!verb.joins) settings.check();
    return verb.run(settings);
  }
  fail(WEFT_NOT_FOUND, "the engine has no verb \"{}\"", name);
}

}  // namespace weft::command
