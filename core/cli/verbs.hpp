// The verbs of the command. A verb adds its subcommand to the application; its callback does the work.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace weft::cli {

// Ends the command with this exit code; what there was to say has been said.
struct Exit {
  int code;
};

// Ends the command with exit code 2, as CLI11's own parse errors do.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A callback may throw weft::Error (exit code 1), UsageError (2) or Exit. main prints `weft: <verb>: <text>`.
void add_plugins(CLI::App& application);
void add_run(CLI::App& application);
void add_train(CLI::App& application);
void add_evaluate(CLI::App& application);
void add_forward(CLI::App& application);
void add_generate(CLI::App& application);
void add_plan(CLI::App& application);
void add_check(CLI::App& application);
void add_convert(CLI::App& application);

// What `weft plugins doctor --json` says.
nlohmann::json inspect_plugins();

}  // namespace weft::cli
