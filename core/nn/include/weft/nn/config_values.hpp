// Reads values of config.json that model families have in common. Errors name the file, the key, the value
// that was found and the values that are allowed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config.hpp"
#include "weft/nn/classifiers.hpp"

namespace weft::nn {

// The other names that Hugging Face accepts for a key (attribute_map of a class).
using Aliases = std::initializer_list<std::string_view>;

// Return the value under `key`, or `otherwise` if it is absent. Each throws INVALID_ARGUMENT for a value
// outside its range, and for names of one value that have different values.
//
// At least 1.
int64_t positive(const Config& config, std::string_view key, int64_t otherwise);
int64_t positive(const Config& config, std::string_view key, Aliases aliases, int64_t otherwise);
// The number of layers of a stack: at least 1 and at most 4096, because each layer takes memory before any
// weight is read.
int64_t num_layers(const Config& config, std::string_view key, int64_t otherwise);
int64_t num_layers(const Config& config, std::string_view key, Aliases aliases, int64_t otherwise);
// At least 0 and less than 1.
double probability(const Config& config, std::string_view key, double otherwise);
// Greater than 0.
double positive_real(const Config& config, std::string_view key, double otherwise);
// At least 0.
double not_negative(const Config& config, std::string_view key, double otherwise);
// One of `known`.
std::string one_of(const Config& config, std::string_view key, std::string_view otherwise,
                   const std::vector<std::string>& known);
// A token id: `least` to vocabulary - 1.
int64_t token_id(const Config& config, std::string_view key, int64_t otherwise, int64_t vocabulary,
                 int64_t least = 0);
// A token id, or none if the key is null.
std::optional<int64_t> optional_token_id(const Config& config, std::string_view key,
                                         std::optional<int64_t> otherwise, int64_t vocabulary,
                                         int64_t least = 0);

// Throws INVALID_ARGUMENT unless `value`, found under `key`, is a multiple of `divisor`, found under `of`.
void require_multiple(const Config& config, std::string_view key, int64_t value, std::string_view of,
                      int64_t divisor);
// Throws INVALID_ARGUMENT with "<file>: <text>".
[[noreturn]] void refuse(const Config& config, const std::string& text);
// Returns the name of an activation. Throws INVALID_ARGUMENT for one that activation() does not have.
std::string activation_name(const Config& config, std::string_view key, std::string_view otherwise);
// Reads id2label or num_labels, and problem_type. Throws INVALID_ARGUMENT if the first two differ.
Labels read_labels(const Config& config);
// Reads pad_token_id, of any value, for classes that compare ids with it.
std::optional<int64_t> padding_token(const Config& config);
// Returns the row of a padding token in an embedding of `vocabulary` tokens, which gets no gradient. As in
// Hugging Face a negative id counts from the end.
std::optional<int64_t> row_of(const std::optional<int64_t>& token, int64_t vocabulary);

// Returns the standard deviation of the initial weights of families that call it "init_std". As in Hugging
// Face, "initializer_range", which their own files do not have, goes before it, and its value 0 is 0.02.
double initial_deviation(const Config& config, double otherwise);

// Throws UNIMPLEMENTED if the configuration asks for something that no family of Weft has: hidden states or
// attention weights as outputs, quantized or pruned weights, layers with values of their own, an encoder and
// a decoder with the same weights. `family` is the name for messages, `type` the model_type of the family.
void refuse_unsupported(const Config& config, std::string_view family, std::string_view type);
// Throws UNIMPLEMENTED naming the value under `key`. `means` says what it asks for, `instead` what to set.
[[noreturn]] void refuse_value(const Config& config, std::string_view key, std::string_view family,
                               std::string_view means, std::string_view instead);
// Throws UNIMPLEMENTED if the flag `key` is true. `means` says what the flag asks for.
void refuse_flag(const Config& config, std::string_view key, std::string_view family, std::string_view means);
// Throws UNIMPLEMENTED if "is_causal" is false, with which Hugging Face's decoders attend to later positions.
void require_causal(const Config& config, std::string_view family);
// Throws UNIMPLEMENTED if "is_causal" has a value, which Hugging Face's models of an encoder and a decoder
// take for both of them.
void refuse_one_attention(const Config& config, std::string_view family);
// Throws UNIMPLEMENTED unless `key` is 0, the probability that a step in training leaves out a block
// (LayerDrop, arXiv:1909.11556).
void refuse_layerdrop(const Config& config, std::string_view key, std::string_view family);

}  // namespace weft::nn
