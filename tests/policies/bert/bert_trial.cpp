#include "policies/bert/bert_trial.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

namespace {

Model tiny_bert(const TinyBert& bert, const std::string& precision) {
  const std::string config =
      fmt::format(R"({{"model_type": "bert", "vocab_size": 23, "max_position_embeddings": 9,
      "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
      "type_vocab_size": 3, "hidden_dropout_prob": {0}, "attention_probs_dropout_prob": {0},
      "pad_token_id": 0, "is_decoder": {1}, "num_labels": {2}, "initializer_range": 0.3}})",
                  bert.dropout, bert.decodes, bert.architecture == "BertForQuestionAnswering" ? 2 : 3);
  return tiny_model(config, bert.architecture, precision);
}

Batch bert_batch(const TinyBert& bert, int64_t seed) {
  Batch batch = bert_inputs(bert, seed);
  const at::Tensor mask = batch.at("attention_mask");
  const auto of_positions = [&](int64_t count) {
    return at::randint(count, mask.sizes(), at::kLong).masked_fill(mask.eq(0), -100);
  };
  const std::string& architecture = bert.architecture;
  if (architecture == "BertForQuestionAnswering") {
    for (const char* field : {"start_positions", "end_positions"})
      batch.set(field, at::randint(bert.positions, {6}, at::kLong));
  } else if (architecture == "BertForTokenClassification") {
    batch.set("labels", of_positions(3));
  } else if (architecture == "BertForSequenceClassification") {
    batch.set("labels", at::randint(3, {6}, at::kLong));
  } else if (architecture == "BertForNextSentencePrediction" || architecture == "BertForMultipleChoice") {
    batch.set("labels", at::randint(2, {6}, at::kLong));
  } else {
    batch.set("labels", of_positions(23));
  }
  if (architecture == "BertForPreTraining")
    batch.set("next_sentence_label", at::tensor({1, -100, 0, 1, 1, 0}, at::kLong));
  return batch;
}

}  // namespace

Batch bert_inputs(const TinyBert& bert, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  std::vector<int64_t> shape = {6, bert.positions};
  if (bert.architecture == "BertForMultipleChoice") shape.insert(shape.begin() + 1, 2);
  const at::Tensor mask = at::ones(shape, at::kLong);
  for (int64_t row = 0; row < std::min<int64_t>(5, bert.positions); ++row)
    mask[row].narrow(-1, row % 2 == 0 || bert.decodes ? bert.positions - row : 0, row).fill_(0);
  return {{"input_ids", (at::randint(22, shape, at::kLong) + 1) * mask},
          {"attention_mask", mask},
          {"token_type_ids", at::randint(3, shape, at::kLong)}};
}

Trial bert_trial(const TinyBert& bert, const std::string& precision) {
  // Attention does not change if a number is added to all scores of a query, nor does a softmax over
  // positions or choices if one is added to all logits. A query that sees one position ignores its score.
  const std::string prefix = bert.architecture == "BertModel" ? "" : "bert.";
  std::vector<std::string> without;
  std::vector<const char*> scores = {"key.bias"};
  if (bert.positions == 1) scores.insert(scores.end(), {"key.weight", "query.weight", "query.bias"});
  for (const char* layer : {"0", "1"})
    for (const char* parameter : scores)
      without.push_back(fmt::format("{}encoder.layer.{}.attention.self.{}", prefix, layer, parameter));
  if (bert.architecture == "BertForQuestionAnswering")
    without.insert(without.end(), {"qa_outputs.bias", "bert.encoder.layer.1.output.LayerNorm.bias"});
  if (bert.architecture == "BertForMultipleChoice") without.push_back("classifier.bias");
  return {.tolerance = trial_tolerance(precision),
          .without_gradient = without,
          .model = [=](const JobOptions& options) { return tiny_bert(bert, options.precision); },
          .batch = [=](int64_t step) { return bert_batch(bert, step); }};
}

}  // namespace weft::test
