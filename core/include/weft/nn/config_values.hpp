// Values of config.json that model families have in common, read with errors that name file, key, value and
// what is possible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weft/config.hpp"
#include "weft/nn/head.hpp"

namespace weft::nn {

// At least 1.
int64_t positive(const Config& config, std::string_view key, int64_t otherwise);
// The same of a key that Hugging Face accepts by another name too (a class's attribute_map); both are refused
// unless they agree.
int64_t positive(const Config& config, std::string_view key, std::string_view alias, int64_t otherwise);
// At least 0 and less than 1.
double probability(const Config& config, std::string_view key, double otherwise);
// A name that activation() knows.
std::string activation_name(const Config& config, std::string_view key, std::string_view otherwise);
// id2label or num_labels, and problem_type.
Labels read_labels(const Config& config);
std::optional<int64_t> padding_token(const Config& config);

// What Hugging Face can do and Weft cannot, of every family: hidden states and attention among the outputs,
// quantised and pruned weights. `family`: as messages call it, `type`: its model_type.
void refuse_unsupported(const Config& config, std::string_view family, std::string_view type);
// UNIMPLEMENTED if the flag is true, which `means` something that the family does not have.
void refuse_flag(const Config& config, std::string_view key, std::string_view family, std::string_view means);

}  // namespace weft::nn
