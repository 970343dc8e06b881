/* Splits the model over the ranks of the tensor axis: the embedding and the head along the vocabulary,
 * attention along the heads, and the MLP along its hidden features. Norms have no entry and are replicated.
 */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

static weft_status build(WEFT_POLICY_ARGUMENTS) {
  /* Where sequences are split, each rank may compute the logits of its own positions. */
  const int split_head = SPLIT_OVER_SEQUENCE_AXIS && parallel->parallel_output;
  REQUIRE_HEADS(heads, "num_attention_heads", 4);

  ON("tokens", "weft.embedding_vocab/1");
  ON("positions", "weft.embedding/1");
  ON("layers.*.attention.[qkv]", "weft.linear_column/1", TEXT("input", "shared"), INT("heads", heads));
  ON("layers.*.attention", "weft.attention/1");
  ON("layers.*.attention.out", "weft.linear_row/1");
  ON("layers.*.up", "weft.linear_column/1");
  ON("layers.*.down", "weft.linear_row/1");
  DIVIDE("layers.*.attention", "num_heads", parallel->tensor_size);
  if (!split_head) ON("stream_end", "weft.sequence_end/1");
  ON("lm_head", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output),
     FLAG("split", split_head));
  TIE("lm_head.weight", "tokens.weight");
  return WEFT_OK;
}

WEFT_SHARD_POLICY("template_name", build)
