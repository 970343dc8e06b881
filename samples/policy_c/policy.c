/* A shard policy of one's own for GPT-2: only the MLPs are split, which is most of what there is to gain on two
 * ranks. `weft train ... --strategy hybrid_parallel -o tp_size=2 -o custom_policy=mlp_only` */
#include <weft/policy.h>

static weft_status build(WEFT_POLICY_ARGUMENTS) {
  /* The first layer gives each rank some of the hidden features, the second sums what they make of them. */
  ON("h.*.mlp.c_fc", "weft.linear_column/1", TEXT("layout", "in_out"));
  ON("h.*.mlp.c_proj", "weft.linear_row/1", TEXT("layout", "in_out"));
  (void)parallel;
  (void)model;
  return WEFT_OK;
}

WEFT_SHARD_POLICY("mlp_only", build)
