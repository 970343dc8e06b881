#include "bert_config.hpp"

namespace weft::bert {

BertConfig BertConfig::read(const Config& config) {
  nn::refuse_unsupported(config, "BERT", "bert");
  nn::refuse_flag(config, "add_cross_attention", "BERT", "attention over an encoder");
  nn::refuse_flag(config, "is_encoder_decoder", "BERT", "an encoder and a decoder");
  // transformers 4 has positions of other types.
  if (config.has("position_embedding_type") && config.json("position_embedding_type") != "\"absolute\"")
    nn::refuse_value(config, "position_embedding_type", "BERT", "positions in the scores of attention",
                     "\"absolute\"");
  BertConfig bert;
  bert.vocab_size = nn::positive(config, "vocab_size", bert.vocab_size);
  bert.hidden_size = nn::positive(config, "hidden_size", bert.hidden_size);
  bert.num_hidden_layers = nn::num_layers(config, "num_hidden_layers", bert.num_hidden_layers);
  bert.num_attention_heads = nn::positive(config, "num_attention_heads", bert.num_attention_heads);
  nn::require_multiple(config, "hidden_size", bert.hidden_size, "num_attention_heads",
                       bert.num_attention_heads);
  bert.intermediate_size = nn::positive(config, "intermediate_size", bert.intermediate_size);
  bert.hidden_act = nn::activation_name(config, "hidden_act", bert.hidden_act);
  bert.hidden_dropout_prob = nn::probability(config, "hidden_dropout_prob", bert.hidden_dropout_prob);
  bert.attention_probs_dropout_prob =
      nn::probability(config, "attention_probs_dropout_prob", bert.attention_probs_dropout_prob);
  bert.classifier_dropout = nn::probability(config, "classifier_dropout", bert.hidden_dropout_prob);
  bert.max_position_embeddings =
      nn::positive(config, "max_position_embeddings", bert.max_position_embeddings);
  bert.type_vocab_size = nn::positive(config, "type_vocab_size", bert.type_vocab_size);
  bert.initializer_range = nn::not_negative(config, "initializer_range", bert.initializer_range);
  bert.layer_norm_eps = nn::positive_real(config, "layer_norm_eps", bert.layer_norm_eps);
  bert.is_decoder = config.flag("is_decoder", bert.is_decoder);
  if (bert.is_decoder)
    nn::require_causal(config, "BERT");
  else
    nn::refuse_flag(config, "is_causal", "BERT",
                    "attention to earlier positions only, without \"is_decoder\"");
  bert.tie_word_embeddings = config.flag("tie_word_embeddings", bert.tie_word_embeddings);
  bert.pad_token_id =
      nn::optional_token_id(config, "pad_token_id", bert.pad_token_id, bert.vocab_size, -bert.vocab_size);
  bert.labels = nn::read_labels(config);
  return bert;
}

}  // namespace weft::bert
