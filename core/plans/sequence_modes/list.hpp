// Lists the sequence modes by their names, "whole" first. Each has a file in this folder, and its residual
// stream in core/parallel/streams.
#pragma once

// clang-format off
#define WEFT_SEQUENCE_MODES(visit) \
  visit(whole) \
  visit(split_gather) \
  visit(ring) \
  visit(all_to_all) \
  visit(ring_attn)
// clang-format on
