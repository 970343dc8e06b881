// The heads of BERT's classes.
#pragma once

#include <memory>

#include "bert_config.hpp"
#include "weft/nn/head.hpp"
#include "weft/nn/layers.hpp"

namespace weft::bert {

// What a head is made from. It registers its modules in `model`, and the pooler in `base`.
struct HeadSetting {
  torch::nn::Module& model;
  torch::nn::Module& base;
  const nn::Embedding& words;
  const Config& file;
  const BertConfig& config;
  at::ScalarType dtype;
};

std::unique_ptr<nn::Head> base_head(const HeadSetting& setting);
std::unique_ptr<nn::Head> pre_training_head(const HeadSetting& setting);
std::unique_ptr<nn::Head> next_token_head(const HeadSetting& setting);
std::unique_ptr<nn::Head> masked_token_head(const HeadSetting& setting);
std::unique_ptr<nn::Head> sequence_classifier(const HeadSetting& setting);
std::unique_ptr<nn::Head> token_classifier(const HeadSetting& setting);
std::unique_ptr<nn::Head> next_sentence_head(const HeadSetting& setting);
std::unique_ptr<nn::Head> choice_classifier(const HeadSetting& setting);
std::unique_ptr<nn::Head> answer_head(const HeadSetting& setting);

}  // namespace weft::bert
