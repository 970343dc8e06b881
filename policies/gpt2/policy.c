/* The shard policy of GPT-2: GPT2Model and its heads. Weights are (in, out), as in Conv1D, and c_attn is a
 * fused projection to q, k and v. The small heads (score, classifier, qa_outputs, multiple_choice_head) have
 * no entry and are replicated. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

/* clang-format off */
static weft_status build(WEFT_POLICY_ARGUMENTS) {
  /* The double heads select one position per choice, for which they need all positions. */
  const int split_head = SPLIT_OVER_SEQUENCE_AXIS && parallel->parallel_output && HAS_MODULE("lm_head") &&
                         !HAS_MODULE("multiple_choice_head");
  REQUIRE_HEADS(heads, "n_head, num_attention_heads", 12);

  ON("wte",                   "weft.embedding_vocab/1");
  ON("wpe",                   "weft.embedding/1");
  ON("h.*.attn.c_attn",       "weft.linear_column/1", TEXT("layout", "in_out"), INT("fused", 3));
  ON("h.*.attn.c_proj",       "weft.linear_row/1",    TEXT("layout", "in_out"));
  ON("h.*.mlp.c_fc",          "weft.linear_column/1", TEXT("layout", "in_out"));
  ON("h.*.mlp.c_proj",        "weft.linear_row/1",    TEXT("layout", "in_out"));
  ON("h.*.attn",              "weft.attention/1");
  if (!split_head)
    ON("stream_end",          "weft.sequence_end/1");
  DIVIDE("h.*.attn", "num_heads", parallel->tensor_size);

  if (HAS_MODULE("lm_head")) {
    ON("lm_head", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output), FLAG("split", split_head));
    if (CONFIG_FLAG("tie_word_embeddings", 1)) TIE("lm_head.weight", "wte.weight");
  }
  return WEFT_OK;
}
/* clang-format on */

WEFT_SHARD_POLICY("gpt2", build)
