// The verbs of the `weft` command that need tensors. Arguments are the command line's options as JSON; the
// command has checked their types.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace weft::command {

// Each returns the exit code. Throws for a job that fails.
int train(const nlohmann::json& arguments);
int forward(const nlohmann::json& arguments);
int evaluate(const nlohmann::json& arguments);
int generate(const nlohmann::json& arguments);
int convert(const nlohmann::json& arguments);
int plan(const nlohmann::json& arguments);
int check(const nlohmann::json& arguments);

// Runs a verb by name.
int run(std::string_view verb, const nlohmann::json& arguments);

}  // namespace weft::command
