/* The shard policy of ChatGLM2. query_key_value has grouped queries, then keys, then values; without groups,
 * every head has its query, key and value. Several ranks hold the same key and value heads if there are fewer
 * of these than ranks. dense_h_to_4h has the gate, then what it multiplies. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

/* clang-format off */
static weft_status build(WEFT_POLICY_ARGUMENTS) {
  const int64_t ranks = parallel->tensor_size;
  const int split_head = SPLIT_OVER_SEQUENCE_AXIS && parallel->parallel_output && HAS_MODULE("output_layer");
  const int grouped = CONFIG_FLAG("multi_query_attention", 0);
  REQUIRE_HEADS(heads, "num_attention_heads", 32);
  const int64_t key_heads = grouped ? CONFIG_INTEGER("multi_query_group_num", 1) : heads;

  ON("embedding.word_embeddings",  "weft.embedding_vocab/1");
  if (!split_head)
    ON("stream_end",               "weft.sequence_end/1");

  if (grouped)
    ON("encoder.layers.*.self_attention.query_key_value", "weft.linear_column/1",
       INT("fused", 3), INT("heads", heads), INT("key_heads", key_heads));
  else
    ON("encoder.layers.*.self_attention.query_key_value", "weft.linear_column/1", INT("heads", heads));
  ON("encoder.layers.*.self_attention",       "weft.attention/1");
  ON("encoder.layers.*.self_attention.dense", "weft.linear_row/1");
  DIVIDE("encoder.layers.*.self_attention", "num_heads",           ranks);
  DIVIDE("encoder.layers.*.self_attention", "num_key_value_heads", key_heads < ranks ? key_heads : ranks);

  ON("encoder.layers.*.mlp.dense_h_to_4h",   "weft.linear_column/1", INT("fused", 2));
  ON("encoder.layers.*.mlp.dense_4h_to_h",   "weft.linear_row/1");

  if (HAS_MODULE("output_layer"))
    ON("output_layer", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output), FLAG("split", split_head));
  return WEFT_OK;
}
/* clang-format on */

WEFT_SHARD_POLICY("chatglm", build)
