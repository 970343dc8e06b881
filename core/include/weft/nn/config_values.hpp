// Values of config.json that model families have in common, read with errors that name file, key, value and
// what is possible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config.hpp"
#include "weft/nn/classifiers.hpp"

namespace weft::nn {

// At least 1.
int64_t positive(const Config& config, std::string_view key, int64_t otherwise);
// The same of a key that Hugging Face accepts by another name too (a class's attribute_map); both are refused
// unless they agree.
int64_t positive(const Config& config, std::string_view key, std::string_view alias, int64_t otherwise);
// At least 0 and less than 1.
double probability(const Config& config, std::string_view key, double otherwise);
// More than 0.
double positive_real(const Config& config, std::string_view key, double otherwise);
// At least 0.
double not_negative(const Config& config, std::string_view key, double otherwise);
// A text that is one of `known`.
std::string one_of(const Config& config, std::string_view key, std::string_view otherwise,
                   const std::vector<std::string>& known);
// The id of a token: `least` to vocabulary - 1.
int64_t token_id(const Config& config, std::string_view key, int64_t otherwise, int64_t vocabulary,
                 int64_t least = 0);
// Throws INVALID_ARGUMENT unless `divisor`, the value of the key `of`, divides `value`, that of `key`.
void require_multiple(const Config& config, std::string_view key, int64_t value, std::string_view of,
                      int64_t divisor);
// INVALID_ARGUMENT: "<file>: <text>".
[[noreturn]] void refuse(const Config& config, const std::string& text);
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
