// Lists the transformations of this folder by the names of their functions, in the order in which they are
// applied.
#pragma once

// clang-format off
#define WEFT_TRANSFORMATIONS(visit) \
  visit(plain_normalization) \
  visit(plain_attention) \
  visit(plain_elementwise)
// clang-format on
