// The command's arguments, and what several verbs make of them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "weft/weft.hpp"

namespace weft::command {

using nlohmann::json;

std::string text(const json& arguments, const char* key, const std::string& otherwise = "");
int64_t integer(const json& arguments, const char* key, int64_t otherwise);
double real(const json& arguments, const char* key, double otherwise);
bool flag(const json& arguments, const char* key);
bool given(const json& arguments, const char* key);

// --strategy, -o, --booster, --precision, --recompute, --accumulate, --max-grad-norm, --seed. Without
// --strategy and --booster: `without` ("none", or empty for the default plugin).
BoosterOptions booster_options(const json& arguments, const std::string& without);
// The same for a verb that reads the outputs: the tensor-parallel ranks gather logits. Throws
// INVALID_ARGUMENT where the options ask for the contrary.
BoosterOptions booster_options_for_outputs(const json& arguments, const std::string& without);
// --model and --architecture. Says on the master that a folder without weights gives initial values.
Model open_model(const json& arguments, const std::string& precision, const World& world);
// --data with --sequence-length and --token-type, for this model.
std::shared_ptr<data::Dataset> open_data(const json& arguments, const char* key, const Model& model);
// Checks --device.
void check_device(const json& arguments);

}  // namespace weft::command
