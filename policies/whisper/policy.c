/* The shard policy of Whisper: an encoder of log-mel spectra, and a decoder except in
 * WhisperForAudioClassification. Weights are (out, in). Every rank computes the convolutions and positions of
 * the whole encoder, because they are small; its sequence is split after them. The head of audio
 * classification (projector, classifier, layer_mix) has no entry and is replicated. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

#define LAYER "*.layers.*."

/* clang-format off */
static weft_status build(WEFT_POLICY_ARGUMENTS) {
  const int split_head = SPLIT_OVER_SEQUENCE_AXIS && parallel->parallel_output && HAS_MODULE("proj_out");
  REQUIRE_HEADS(encoder_heads, "encoder_attention_heads, num_attention_heads, num_key_value_heads", 6);

  /* The encoder and the decoder have different sequences, each with its own length. */
  ON("*.stream_begin",                         "weft.sequence_begin/1");
  ON("encoder.stream_split",                   "weft.sequence_split/1");
  ON("encoder.stream_end",                     "weft.sequence_end/1");
  ON(LAYER "self_attn.[qkv]_proj",             "weft.linear_column/1", TEXT("input", "shared"));
  ON(LAYER "self_attn",                        "weft.attention/1");
  ON(LAYER "*_attn.out_proj",                  "weft.linear_row/1");
  ON(LAYER "fc1",                              "weft.linear_column/1");
  ON(LAYER "fc2",                              "weft.linear_row/1");
  ON(LAYER "activation_dropout",               "weft.dropout/1",       FLAG("split", 1));
  DIVIDE(LAYER "*_attn", "num_heads", parallel->tensor_size);

  if (HAS_MODULE("decoder")) {
    REQUIRE_HEADS(decoder_heads, "decoder_attention_heads", 6);
    ON("decoder.embed_tokens",                 "weft.embedding_vocab/1");
    ON("decoder.embed_positions",              "weft.embedding/1");
    /* Every block of the decoder reads the encoder's output; its gradient is summed once for all of them. */
    ON("encoder.source",                       "weft.parallel_input/1");
    ON("decoder.layers.*.encoder_attn",        "weft.cross_attention/1", TEXT("source", "encoder"));
    ON("decoder.layers.*.encoder_attn.q_proj", "weft.linear_column/1");
    ON("decoder.layers.*.encoder_attn.[kv]_proj", "weft.linear_column/1", TEXT("input", "entered"));
    if (!split_head) ON("decoder.stream_end",  "weft.sequence_end/1");
  }
  if (HAS_MODULE("proj_out")) {
    ON("proj_out", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output), FLAG("split", split_head));
    if (CONFIG_FLAG("tie_word_embeddings", 1)) TIE("proj_out.weight", "decoder.embed_tokens.weight");
  }
  return WEFT_OK;
}
/* clang-format on */

WEFT_SHARD_POLICY("whisper", build)
