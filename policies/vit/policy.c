/* The shard policy of ViT: ViTModel and its heads. Weights are (out, in). Every rank computes the embeddings
 * of all positions, because the patches' convolution is small; sequences are split after them. The heads
 * (pooler, classifier, decoder) have no entry and are replicated: they read the class token or all patches.
 */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

#define LAYER "encoder.layer.*."

/* clang-format off */
static weft_status build(WEFT_POLICY_ARGUMENTS) {
  REQUIRE_HEADS(heads, "num_attention_heads", 12);

  ON("embeddings.stream_begin",          "weft.sequence_split/1");
  ON(LAYER "attention.attention.[qkv]*", "weft.linear_column/1", TEXT("input", "shared"));
  ON(LAYER "attention.attention",        "weft.attention/1");
  ON(LAYER "attention.output.dense",     "weft.linear_row/1");
  ON(LAYER "intermediate.dense",         "weft.linear_column/1");
  ON(LAYER "output.dense",               "weft.linear_row/1");
  ON("stream_end",                       "weft.sequence_end/1");
  DIVIDE(LAYER "attention.attention", "num_heads", parallel->tensor_size);
  return WEFT_OK;
}
/* clang-format on */

WEFT_SHARD_POLICY("vit", build)
