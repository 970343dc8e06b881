/* The shard policy of the families with Llama's modules: Llama, Mistral, Qwen2, Qwen3. Each of them compiles
 * this file. With grouped-query attention, several ranks hold the same key and value heads if there are fewer
 * of these than ranks. q, k and v share one input, and so do gate and up. The small heads (score, qa_outputs)
 * have no entry and are replicated. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

#define SHARED TEXT("input", "shared")

/* Returns the number of output features of a linear layer, or 0 if there is no such layer. The models know
 * their numbers of heads; what config.json leaves out differs between the families. */
static int64_t features(const weft_model_view* model, weft_str path) {
  weft_node node;
  weft_node_param weight;
  uint64_t i;
  node.struct_size = sizeof(node);
  weight.struct_size = sizeof(weight);
  for (i = 0; model->node(model->model, i, &node); ++i)
    if (weft_policy_equal(node.path, path) && model->node_param(model->model, i, 0, &weight))
      return weight.shape[0];
  return 0;
}

/* clang-format off */
static weft_status build(WEFT_POLICY_ARGUMENTS) {
  const int64_t ranks = parallel->tensor_size;
  const int split_head = SPLIT_OVER_SEQUENCE_AXIS && parallel->parallel_output && HAS_MODULE("lm_head");
  REQUIRE_HEADS(heads, "num_attention_heads", 32);
  const int64_t queries = features(model, WEFT_STR("layers.0.self_attn.q_proj"));
  const int64_t keys = features(model, WEFT_STR("layers.0.self_attn.k_proj"));
  const int64_t key_heads = queries > 0 ? heads * keys / queries : heads;

  ON("embed_tokens",                    "weft.embedding_vocab/1");
  if (!split_head)
    ON("stream_end",                    "weft.sequence_end/1");

  ON("layers.*.self_attn.q_proj",       "weft.linear_column/1", SHARED, INT("heads", heads));
  ON("layers.*.self_attn.[kv]_proj",    "weft.linear_column/1", SHARED, INT("heads", key_heads));
  if (HAS_MODULE("layers.0.self_attn.q_norm"))
    ON("layers.*.self_attn.[qk]_norm",  "weft.rms_norm/1", FLAG("split", 1));
  ON("layers.*.self_attn",              "weft.attention/1");
  ON("layers.*.self_attn.o_proj",       "weft.linear_row/1");
  DIVIDE("layers.*.self_attn", "num_heads",           ranks);
  DIVIDE("layers.*.self_attn", "num_key_value_heads", key_heads < ranks ? key_heads : ranks);

  ON("layers.*.mlp.gate_proj, layers.*.mlp.up_proj", "weft.linear_column/1", SHARED);
  ON("layers.*.mlp.down_proj",                       "weft.linear_row/1");

  if (HAS_MODULE("lm_head")) {
    ON("lm_head", "weft.linear_vocab/1", FLAG("parallel_output", parallel->parallel_output), FLAG("split", split_head));
    if (CONFIG_FLAG("tie_word_embeddings", 0)) TIE("lm_head.weight", "embed_tokens.weight");
  }
  return WEFT_OK;
}
/* clang-format on */

WEFT_SHARD_POLICY(WEFT_PLUGIN_ID, build)
