/* A policy with a mistake that the test of growth must find: it compares the size of a struct with its own.
 */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

static weft_status build(WEFT_POLICY_ARGUMENTS) {
  REJECT_IF(model->struct_size != sizeof *model, "strict: weft_model_view has another size");
  ON("h.*.mlp.c_fc", "weft.linear_column/1", TEXT("layout", "in_out"));
  ON("h.*.mlp.c_proj", "weft.linear_row/1", TEXT("layout", "in_out"));
  return WEFT_OK;
}

WEFT_SHARD_POLICY("strict", build)
