/* The T5 family: an encoder, and a decoder but in T5EncoderModel and T5ForTokenClassification. Weights are
 * (out, in). The small classifier has no entry: every rank has it whole. */
#include <weft/policy.h>

/* clang-format off */
static weft_status build(WEFT_POLICY_ARGUMENTS) {
  REJECT_IF(parallel->sequence_mode != WEFT_SEQUENCE_WHOLE,
            "T5's attention adds a bias by distance, which sequences shared out between ranks do not have; leave "
            "enable_sequence_parallelism false");
  REQUIRE_DIVIDES("num_heads", parallel->tensor_size);

  ON("shared, *.embed_tokens",                   "weft.embedding_vocab/1");
  ON("*.block.*.layer.*.layer_norm, *.final_layer_norm", "weft.rms_norm/1",
     FLAG("fused", parallel->fused_normalization));
  ON("*.block.*.layer.0.SelfAttention.[qkv]",    "weft.linear_column/1", TEXT("input", "shared"));
  ON("*.block.*.layer.*.*Attention.o",           "weft.linear_row/1");
  ON("*.block.*.layer.*.DenseReluDense.wi*",     "weft.linear_column/1", TEXT("input", "shared"));
  ON("*.block.*.layer.*.DenseReluDense.wo",      "weft.linear_row/1");
  ON("*.block.*.layer.*.DenseReluDense.act",     "weft.activation/1",    FLAG("fused", parallel->jit_fused));
  ON("*.block.*.layer.*.DenseReluDense.dropout", "weft.dropout/1",       FLAG("fused", parallel->jit_fused), FLAG("split", 1));
  ON("*.dropout, *.block.*.layer.*.dropout",     "weft.dropout/1",       FLAG("fused", parallel->jit_fused));
  ON("*.block.*.layer.*.*Attention",             "weft.attention/1",
     FLAG("flash", parallel->flash_attention));
  ON("*.block.*.layer.*.*Attention.dropout",     "weft.dropout/1",       FLAG("split", 1));
  ON("*.block.0.layer.0.SelfAttention.relative_attention_bias", "weft.attention_bias/1");
  DIVIDE("*.block.*.layer.*.*Attention", "n_heads", parallel->tensor_size);
  TIE("encoder.embed_tokens.weight", "shared.weight");

  if (HAS_MODULE("decoder")) {
    /* Every block reads the encoder's output: its gradient is summed once for all of them. */
    ON("decoder.source",                               "weft.parallel_input/1");
    ON("decoder.block.*.layer.1.EncDecAttention.q",    "weft.linear_column/1");
    ON("decoder.block.*.layer.1.EncDecAttention.[kv]", "weft.linear_column/1", TEXT("input", "entered"));
    TIE("decoder.embed_tokens.weight", "shared.weight");
  }
  if (HAS_MODULE("lm_head")) {
    ON("lm_head", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output));
    if (CONFIG_FLAG("tie_word_embeddings", 1) && CONFIG_FLAG("scale_decoder_outputs", 1))
      TIE("lm_head.weight", "shared.weight");
  }
  return WEFT_OK;
}
/* clang-format on */

WEFT_SHARD_POLICY("t5", build)
