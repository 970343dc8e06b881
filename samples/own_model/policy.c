/* The dilated causal network of main.cpp: the embedding and the head by vocabulary, each block's two layers by its
 * hidden features. Norms stay whole. */
#include <weft/policy.h>

static weft_status build(WEFT_POLICY_ARGUMENTS) {
  ON("embedding", "weft.embedding_vocab/1");
  ON("blocks.*.up", "weft.linear_column/1");
  ON("blocks.*.down", "weft.linear_row/1");
  ON("head", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output));
  (void)model;
  return WEFT_OK;
}

WEFT_SHARD_POLICY("dilated", build)
