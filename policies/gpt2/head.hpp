// The heads of the GPT-2 classes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trunk.hpp"
#include "weft/nn/head.hpp"

namespace weft::gpt2 {

// What a head is made of. `model` is where it registers its modules; `trunk` is already there.
struct HeadSetting {
  torch::nn::Module& model;
  const Trunk& trunk;
  const Gpt2Config& config;
  at::ScalarType dtype;
};

struct Architecture {
  std::string_view name;    // "GPT2LMHeadModel"
  std::string_view prefix;  // of the names of the base model's parameters: "transformer." or nothing
  std::unique_ptr<nn::Head> (*make_head)(const HeadSetting& setting);
};

std::unique_ptr<nn::Head> make_base_head(const HeadSetting& setting);
std::unique_ptr<nn::Head> make_language_head(const HeadSetting& setting);
std::unique_ptr<nn::Head> make_double_heads(const HeadSetting& setting);
std::unique_ptr<nn::Head> make_sequence_classifier(const HeadSetting& setting);
std::unique_ptr<nn::Head> make_token_classifier(const HeadSetting& setting);
std::unique_ptr<nn::Head> make_answer_head(const HeadSetting& setting);

}  // namespace weft::gpt2
