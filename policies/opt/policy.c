/* The shard policy of OPT: OPTModel and its heads. q, k and v share one input. The layers that change the
 * width of the embeddings are replicated: project_in reads a part of the positions where sequences are split
 * over the tensor axis; project_out follows their end. The small heads (score, qa_outputs) have no entry and
 * are replicated too. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

/* clang-format off */
static weft_status build(WEFT_POLICY_ARGUMENTS) {
  const int split_head = SPLIT_OVER_SEQUENCE_AXIS && parallel->parallel_output && HAS_MODULE("lm_head");
  REQUIRE_HEADS(heads, "num_attention_heads", 12);

  ON("decoder.embed_tokens",                    "weft.embedding_vocab/1");
  ON("decoder.embed_positions",                 "weft.embedding/1");
  if (HAS_MODULE("decoder.project_in"))
    ON("decoder.project_in",                    "weft.linear/1");
  if (!split_head)
    ON("stream_end",                            "weft.sequence_end/1");

  ON("decoder.layers.*.self_attn.[qkv]_proj",   "weft.linear_column/1", TEXT("input", "shared"), INT("heads", heads));
  ON("decoder.layers.*.self_attn",              "weft.attention/1");
  ON("decoder.layers.*.self_attn.out_proj",     "weft.linear_row/1");
  ON("decoder.layers.*.fc1",                    "weft.linear_column/1");
  ON("decoder.layers.*.fc2",                    "weft.linear_row/1");
  DIVIDE("decoder.layers.*.self_attn", "num_heads", parallel->tensor_size);

  if (HAS_MODULE("lm_head")) {
    ON("lm_head", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output), FLAG("split", split_head));
    if (CONFIG_FLAG("tie_word_embeddings", 1)) TIE("lm_head.weight", "decoder.embed_tokens.weight");
  }
  return WEFT_OK;
}
/* clang-format on */

WEFT_SHARD_POLICY("opt", build)
