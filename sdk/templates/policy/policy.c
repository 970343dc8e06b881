/* Splits GPT-2 over the ranks of the tensor axis: the embedding and the head along the vocabulary, attention
 * along the heads, and the MLP along its hidden features. Norms have no entry and are replicated. Paths are
 * relative to the base model; `weft plan --explain` prints them. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

static weft_status build(WEFT_POLICY_ARGUMENTS) {
  /* Where sequences are split, each rank may compute the logits of its own positions. */
  const int split_head = SPLIT_OVER_SEQUENCE_AXIS && parallel->parallel_output && HAS_MODULE("lm_head");
  REQUIRE_HEADS(heads, "n_head, num_attention_heads", 12);

  ON("wte", "weft.embedding_vocab/1");
  ON("wpe", "weft.embedding/1");

  /* A column-parallel layer computes some of its output features on each rank; the row-parallel layer behind
   * it reads them and sums the partial results. GPT-2's weights are (in, out), and c_attn makes q, k and v.
   */
  ON("h.*.attn.c_attn", "weft.linear_column/1", TEXT("layout", "in_out"), INT("fused", 3));
  ON("h.*.attn", "weft.attention/1");
  ON("h.*.attn.c_proj", "weft.linear_row/1", TEXT("layout", "in_out"));
  DIVIDE("h.*.attn", "num_heads", parallel->tensor_size);
  ON("h.*.mlp.c_fc", "weft.linear_column/1", TEXT("layout", "in_out"));
  ON("h.*.mlp.c_proj", "weft.linear_row/1", TEXT("layout", "in_out"));

  if (!split_head) ON("stream_end", "weft.sequence_end/1");
  if (HAS_MODULE("lm_head")) {
    ON("lm_head", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output),
       FLAG("split", split_head));
    if (CONFIG_FLAG("tie_word_embeddings", 1)) TIE("lm_head.weight", "wte.weight");
  }
  (void)heads;
  return WEFT_OK;
}

WEFT_SHARD_POLICY("template_name", build)
