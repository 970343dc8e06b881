// The verbs of the `weft` command that need tensors. `arguments` are the options that sdk/options/job.json
// declares for them, of the right types.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/settings.hpp"

namespace weft::command {

// Each verb returns the exit code of the command and throws weft::Error if it fails.
int train(const Settings& arguments);
int forward(const Settings& arguments);
int evaluate(const Settings& arguments);
int predict(const Settings& arguments);
int generate(const Settings& arguments);
int convert(const Settings& arguments);
int plan(const Settings& arguments);
int check(const nlohmann::json& arguments);
int validate(const nlohmann::json& arguments);
int encode_text(const Settings& arguments);
int decode_ids(const Settings& arguments);
int train_tokenizer(const Settings& arguments);

// Runs the verb with this name. Throws NOT_FOUND if there is none.
int run(std::string_view name, const nlohmann::json& arguments);

}  // namespace weft::command
