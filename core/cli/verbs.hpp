// The verbs of the `weft` command. Each function adds a subcommand to `application`; the callback of the
// subcommand runs the verb.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace weft::cli {

// Thrown to end the command with this exit code and without another message.
struct Exit {
  int code;
};

// Thrown for a wrong command line: exit code 2, like CLI11's parse errors.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A callback may throw weft::Error (exit code 1), UsageError (2) or Exit. main prints "weft: <verb>: <text>".
void add_plugins(CLI::App& application);
void add_validate(CLI::App& plugins);
void add_run(CLI::App& application);
void add_train(CLI::App& application);
void add_evaluate(CLI::App& application);
void add_predict(CLI::App& application);
void add_forward(CLI::App& application);
void add_generate(CLI::App& application);
void add_plan(CLI::App& application);
void add_check(CLI::App& application);
void add_convert(CLI::App& application);
void add_tokenizer(CLI::App& application);

// Returns the report that `weft plugins doctor --json` prints.
nlohmann::json inspect_plugins();

}  // namespace weft::cli
