/* The shard policy of T5: an encoder, and a decoder except in T5EncoderModel and T5ForTokenClassification.
 * Weights are (out, in). The small classifier has no entry and is replicated. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

/* clang-format off */
static weft_status build(WEFT_POLICY_ARGUMENTS) {
  const int split_head = SPLIT_OVER_SEQUENCE_AXIS && parallel->parallel_output && HAS_MODULE("lm_head");
  REQUIRE_HEADS(heads, "num_heads, num_attention_heads", 8);

  ON("shared, *.embed_tokens",                   "weft.embedding_vocab/1");
  /* The encoder and the decoder have different sequences, each with its own length. */
  ON("*.stream_begin",                           "weft.sequence_begin/1");
  ON("encoder.stream_end",                       "weft.sequence_end/1");
  ON("*.block.*.layer.0.SelfAttention.[qkv]",    "weft.linear_column/1", TEXT("input", "shared"));
  ON("*.block.*.layer.*.*Attention.o",           "weft.linear_row/1");
  ON("*.block.*.layer.*.DenseReluDense.wi*",     "weft.linear_column/1", TEXT("input", "shared"));
  ON("*.block.*.layer.*.DenseReluDense.wo",      "weft.linear_row/1");
  ON("*.block.*.layer.*.DenseReluDense.dropout", "weft.dropout/1",       FLAG("split", 1));
  ON("*.block.*.layer.0.SelfAttention",          "weft.attention/1");
  ON("*.block.0.layer.0.SelfAttention.relative_attention_bias", "weft.attention_bias/1");
  DIVIDE("*.block.*.layer.*.*Attention", "n_heads", parallel->tensor_size);
  TIE("encoder.embed_tokens.weight", "shared.weight");

  if (HAS_MODULE("decoder")) {
    /* Every block of the decoder reads the encoder's output; its gradient is summed once for all of them. */
    ON("encoder.source",                               "weft.parallel_input/1");
    ON("decoder.block.*.layer.1.EncDecAttention",      "weft.cross_attention/1", TEXT("source", "encoder"));
    ON("decoder.block.*.layer.1.EncDecAttention.q",    "weft.linear_column/1");
    ON("decoder.block.*.layer.1.EncDecAttention.[kv]", "weft.linear_column/1", TEXT("input", "entered"));
    if (!split_head) ON("decoder.stream_end",          "weft.sequence_end/1");
    TIE("decoder.embed_tokens.weight", "shared.weight");
  }
  if (HAS_MODULE("lm_head")) {
    ON("lm_head", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output), FLAG("split", split_head));
    if (CONFIG_FLAG("tie_word_embeddings", 1) && CONFIG_FLAG("scale_decoder_outputs", 1))
      TIE("lm_head.weight", "shared.weight");
  }
  return WEFT_OK;
}
/* clang-format on */

WEFT_SHARD_POLICY("t5", build)
