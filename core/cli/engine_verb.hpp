// The verbs that run in the engine. Their flags are the options that sdk/options/job.json declares for them,
// and become the engine's arguments; `-n` launches ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <weft/error.hpp>

#include "verbs.hpp"

namespace weft::cli {

// Converts the seconds of a flag as milliseconds_of() does, but throws UsageError.
std::chrono::milliseconds milliseconds(const char* flag, double seconds);

// Returns what `action` returns. Throws UsageError where `action` throws Error with INVALID_ARGUMENT.
template <class Action>
auto with_usage_errors(const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    if (error.status() == WEFT_INVALID_ARGUMENT) throw UsageError(error.what());
    throw;
  }
}

// Ends a verb with an error: that of the command or, in a rank, that of the job.
[[noreturn]] void fail_verb(weft_status status, const std::string& text);

// Runs a verb in the engine and ends the command with its exit code.
[[noreturn]] void perform_in_engine(const std::string& verb, const nlohmann::json& arguments);

// Adds the verb `name` below `parent`. The engine and the declaration of options know it as `engine_verb`.
void add_engine_verb(CLI::App& parent, const std::string& name, const std::string& description,
                     const std::string& footer, const std::string& engine_verb);

}  // namespace weft::cli
