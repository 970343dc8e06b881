/* The shard policy of the model in main.cpp: splits the embedding and the head along the vocabulary, and the
 * two linear layers of each block along the hidden features. Norms have no entry and are replicated. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

static weft_status build(WEFT_POLICY_ARGUMENTS) {
  ON("embedding", "weft.embedding_vocab/1");
  ON("blocks.*.up", "weft.linear_column/1");
  ON("blocks.*.down", "weft.linear_row/1");
  ON("head", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output));
  return WEFT_OK;
}

WEFT_SHARD_POLICY("dilated", build)
