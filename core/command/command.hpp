// The verbs of the `weft` command that need tensors. `arguments` are the flags of the command line as JSON,
// of the right types.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace weft::command {

// Each verb returns the exit code of the command and throws weft::Error if it fails.
int train(const nlohmann::json& arguments);
int forward(const nlohmann::json& arguments);
int evaluate(const nlohmann::json& arguments);
int generate(const nlohmann::json& arguments);
int convert(const nlohmann::json& arguments);
int plan(const nlohmann::json& arguments);
int check(const nlohmann::json& arguments);
int encode_text(const nlohmann::json& arguments);
int decode_ids(const nlohmann::json& arguments);
int train_tokenizer(const nlohmann::json& arguments);

// Runs the verb with this name. Throws NOT_FOUND if there is none.
int run(std::string_view verb, const nlohmann::json& arguments);

}  // namespace weft::command
