/* The shard policy of BERT: BertModel and its heads. Weights are (out, in); q, k and v share one input. The
 * pooler, the transform before the decoder and the small heads (classifier, qa_outputs, seq_relationship)
 * have no entry and are replicated. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

/* clang-format off */
static weft_status build(WEFT_POLICY_ARGUMENTS) {
  /* A pooler reads the first position, for which it needs all positions. */
  const int split_head = SPLIT_OVER_SEQUENCE_AXIS && parallel->parallel_output && HAS_MODULE("cls.predictions") &&
                         !HAS_MODULE("pooler");
  REQUIRE_HEADS(heads, "num_attention_heads", 12);

  ON("embeddings.word_embeddings",              "weft.embedding_vocab/1");
  ON("embeddings.position_embeddings, embeddings.token_type_embeddings",
                                                "weft.embedding/1");
  ON("encoder.layer.*.attention.self.[qkv]*",   "weft.linear_column/1", TEXT("input", "shared"));
  ON("encoder.layer.*.attention.self",          "weft.attention/1");
  ON("encoder.layer.*.attention.output.dense",  "weft.linear_row/1");
  ON("encoder.layer.*.intermediate.dense",      "weft.linear_column/1");
  ON("encoder.layer.*.output.dense",            "weft.linear_row/1");
  if (!split_head)
    ON("stream_end",                            "weft.sequence_end/1");
  DIVIDE("encoder.layer.*.attention.self", "num_attention_heads", parallel->tensor_size);

  if (HAS_MODULE("cls.predictions")) {
    ON("cls.predictions.decoder",               "weft.linear_vocab/1",
       FLAG("parallel_output", parallel->parallel_output), FLAG("split", split_head));
    TIE("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight");
  }
  return WEFT_OK;
}
/* clang-format on */

WEFT_SHARD_POLICY("bert", build)
