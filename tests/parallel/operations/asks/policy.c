/* A shard policy that asks for operations: Weft's own, those of a library, and one of a broken library. */
#define WEFT_SHORT_NAMES
#include <weft/policy.h>

static weft_status build(WEFT_POLICY_ARGUMENTS) {
  REJECT_IF(!HAS_OPERATION("weft.linear_row/1"), "weft.linear_row/1 is missing");
  REJECT_IF(HAS_OPERATION("weft.linear_row/2"), "weft.linear_row/2 is there");
  REJECT_IF(HAS_OPERATION("test.scaled/2"), "test.scaled/2 is there");
  REJECT_IF(HAS_OPERATION("nobody.scaled/1"), "nobody.scaled/1 is there");
  if (!parallel->parallel_output) REJECT_IF(HAS_OPERATION("test.unfinished/1"), "test.unfinished/1 is there");
  if (HAS_OPERATION("test.scaled/1")) ON("h.*.mlp.c_proj", "test.scaled/1", INT("factor", 3));
  return WEFT_OK;
}

WEFT_SHARD_POLICY("asks", build)
