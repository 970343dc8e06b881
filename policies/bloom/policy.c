/* The shard policy of Bloom: BloomModel and its heads. query_key_value has q, k and v of each head side by
 * side, so that heads are its only parts. The small heads (score, classifier, qa_outputs) have no entry and
 * are replicated. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

/* clang-format off */
static weft_status build(WEFT_POLICY_ARGUMENTS) {
  const int split_head = SPLIT_OVER_SEQUENCE_AXIS && parallel->parallel_output && HAS_MODULE("lm_head");
  REQUIRE_HEADS(heads, "n_head, num_attention_heads", 8);

  ON("word_embeddings",                     "weft.embedding_vocab/1");
  ON("h.*.self_attention.alibi",            "weft.alibi/1");
  ON("h.*.self_attention.query_key_value",  "weft.linear_column/1", INT("heads", heads));
  ON("h.*.self_attention",                  "weft.attention/1");
  ON("h.*.self_attention.dense",            "weft.linear_row/1");
  ON("h.*.mlp.dense_h_to_4h",               "weft.linear_column/1");
  ON("h.*.mlp.dense_4h_to_h",               "weft.linear_row/1");
  if (!split_head)
    ON("stream_end",                        "weft.sequence_end/1");
  DIVIDE("h.*.self_attention", "num_heads", parallel->tensor_size);

  if (HAS_MODULE("lm_head")) {
    ON("lm_head", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output), FLAG("split", split_head));
    if (CONFIG_FLAG("tie_word_embeddings", 1)) TIE("lm_head.weight", "word_embeddings.weight");
  }
  return WEFT_OK;
}
/* clang-format on */

WEFT_SHARD_POLICY("bloom", build)
