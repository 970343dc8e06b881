#include "host/launch/run_ranks.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <weft/error.hpp>

#include "base/text.hpp"
#include "engine_verb.hpp"
#include "host/signals.h"
#include "numbers.hpp"
#include "verbs.hpp"

namespace weft::cli {
namespace {

struct Flags {
  launch::RunOptions options;
  std::optional<int> num_ranks;
  std::string program;  // always empty: the words of the program are in remaining()
};

// Adds a flag of other launchers that names hosts, which is refused with any value.
void add_refused(CLI::App& verb, const char* flag, const char* help) {
  verb.add_option_function<std::string>(
      flag,
      [flag](const std::string& value) {
        throw UsageError(fmt::format(
            "{} is \"{}\", but this version starts ranks on this host only\n"
            "On several hosts start the program itself with torchrun, srun or mpirun: Weft reads the\n"
            "ranks from their environment, for example `srun -N 2 --ntasks-per-node 4 PROGRAM` or\n"
            "`mpirun -x MASTER_ADDR=a --host a:4,b:4 -n 8 PROGRAM`",
            flag, printable(value)));
      },
      help);
}

// Adds a flag whose text `take` reads. Help shows `type`.
void add_number(CLI::App& verb, const std::string& flag, const char* type, const char* help,
                const std::function<void(const std::string& flag, const std::string& text)>& take) {
  verb.add_option_function<std::string>(
          flag, [flag, take](const std::string& text) { take(flag, text); }, help)
      ->type_name(type);
}

void run(Flags& flags, std::vector<std::string> command, const std::vector<std::string>& known) {
  const bool marked = !command.empty() && command.front() == "--";
  if (marked) command.erase(command.begin());
  if (!marked && !command.empty() && command.front().starts_with("-")) {
    const std::string flag = command.front().substr(0, command.front().find('='));
    throw UsageError(fmt::format("there is no flag {}{}\nA program whose name begins with - goes after --",
                                 printable(flag), did_you_mean(flag, known)));
  }
  if (!flags.num_ranks) throw UsageError("-n is missing: weft run -n N PROGRAM ARGS");
  if (command.empty()) throw UsageError("no program was given: weft run -n N PROGRAM ARGS");
  flags.options.num_ranks = *flags.num_ranks;
  flags.options.command = std::move(command);
  weft_signals_end();  // the launcher takes them itself
  throw Exit{with_usage_errors([&] { return launch::run_ranks(flags.options); })};
}

}  // namespace

void add_run(CLI::App& application) {
  CLI::App* verb = application.add_subcommand("run", "Run a program on several ranks of this host");
  const auto flags = std::make_shared<Flags>();
  // The first word that is not a flag is the program, and all words after it belong to the program, even
  // those that look like flags of this verb. A positional argument that refuses every value makes CLI11 leave
  // `--` and the words after it to remaining().
  verb->prefix_command();
  verb->validate_positionals();
  verb->add_option("PROGRAM", flags->program, "The program; everything after it is passed to the program")
      ->check(CLI::Validator([](std::string&) { return std::string("left to remaining()"); }, ""));
  add_number(*verb, "-n,--nproc-per-node", "INT", "Number of ranks; required",
             [flags](const std::string& flag, const std::string& text) {
               flags->num_ranks = static_cast<int>(read_integer(flag, text, {1, launch::kMostRanksPerHost}));
             });
  verb->add_option("--master-addr", flags->options.master_addr,
                   "Address of this host through which the ranks meet")
      ->capture_default_str();
  add_number(*verb, "--master-port", "INT", "Port through which the ranks meet; default: a free one",
             [flags](const std::string& flag, const std::string& text) {
               flags->options.master_port = static_cast<int>(read_integer(flag, text, {1, 65535}));
             });
  add_number(*verb, "--grace", "FLOAT", "Seconds for the ranks to stop after a signal; default 300",
             [flags](const std::string& flag, const std::string& text) {
               flags->options.grace = milliseconds("--grace", read_real(flag, text));
             });
  add_refused(*verb, "--hosts", "Refused: on several hosts use torchrun, srun or mpirun");
  for (const char* flag : {"--hostfile", "--include", "--exclude"})
    add_refused(*verb, flag, "Refused, as --hosts");
  verb->footer(
      "The program gets the environment of torchrun (RANK, WORLD_SIZE, ...). When a rank fails, the others\n"
      "end, and what the failed rank was doing and its last lines are printed; the exit code is that of\n"
      "this rank. Ctrl-C, SIGTERM and SIGHUP are passed on. The ranks then have --grace seconds to stop; a\n"
      "rank that does not take the signal within 10 s, or within a shorter --grace, is killed. A second\n"
      "Ctrl-C kills all ranks.\n"
      "Example: weft run -n 2 ./train --steps 100");
  verb->callback([verb, flags] {
    std::vector<std::string> known;
    for (const CLI::Option* option : verb->get_options())
      if (!option->get_positional()) known.push_back("--" + option->get_single_name());
    run(*flags, verb->remaining(), known);
  });
}

}  // namespace weft::cli
