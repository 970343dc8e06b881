/* A custom shard policy for GPT-2 that splits only the MLPs, which hold two thirds of the weights of a block.
 * `weft train ... --strategy hybrid_parallel -o tp_size=2 -o custom_policy=mlp_only` */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

static weft_status build(WEFT_POLICY_ARGUMENTS) {
  /* The first layer computes a shard of the hidden features; the second sums the partial results of the
   * ranks. */
  ON("h.*.mlp.c_fc", "weft.linear_column/1", TEXT("layout", "in_out"));
  ON("h.*.mlp.c_proj", "weft.linear_row/1", TEXT("layout", "in_out"));
  REJECT_IF(SPLIT_OVER_TENSOR_AXIS || SPLIT_OVER_SEQUENCE_AXIS,
            "mlp_only splits no sequences: leave enable_sequence_parallelism out");
  return WEFT_OK;
}

WEFT_SHARD_POLICY("mlp_only", build)
