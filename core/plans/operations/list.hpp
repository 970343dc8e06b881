// Lists the operations of this folder by the names of their functions, sorted by id.
#pragma once

// clang-format off
#define WEFT_OPERATIONS(visit) \
  visit(activation) \
  visit(alibi) \
  visit(attention) \
  visit(attention_bias) \
  visit(cross_attention) \
  visit(dropout) \
  visit(embedding) \
  visit(embedding_vocab) \
  visit(layer_norm) \
  visit(linear) \
  visit(linear_column) \
  visit(linear_row) \
  visit(linear_vocab) \
  visit(parallel_input) \
  visit(rms_norm) \
  visit(sequence_begin) \
  visit(sequence_end) \
  visit(sequence_split)
// clang-format on
