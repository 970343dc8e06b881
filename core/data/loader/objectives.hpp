// Data sets whose labels are made from the inputs of another data set. In messages `called` names the
// settings of the objective.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/setting_name.hpp"
#include "weft/data/dataset.hpp"

namespace weft::data {

// Returns `dataset` with labels for causal_lm: the ids of `field`, or -100 where there is padding
// (attention_mask 0). Throws INVALID_ARGUMENT if it has labels of its own, and, here or for a later batch, if
// it has no ids of int64 or int32, or an attention mask of another shape than the ids.
std::shared_ptr<Dataset> with_next_tokens(std::shared_ptr<Dataset> dataset, const std::string& field,
                                          SettingName called = own_name);

struct TokenMasking {
  std::string field;       // of the ids
  int64_t vocabulary = 0;  // of that field
  int64_t mask_token_id = 0;
  std::vector<int64_t> special_ids;  // may be empty
  double probability = 0.15;
  int64_t seed = 0;
};
// Returns `dataset` with masked ids and labels for masked_lm, as ObjectiveOptions describes it. Throws like
// with_next_tokens().
std::shared_ptr<Dataset> with_masked_tokens(std::shared_ptr<Dataset> dataset, TokenMasking masking,
                                            SettingName called = own_name);

struct PatchMasking {
  int64_t patch_height = 0, patch_width = 0;  // of the model, in pixels
  int64_t mask_patch_size = 32;               // the side of a masked square, in pixels
  double ratio = 0.6;                         // the share of squares that are masked, rounded up
  int64_t seed = 0;
};
// Returns `dataset` with "bool_masked_pos" (B, patches) for its "pixel_values" (B, C, H, W): 1 for the
// patches of the masked squares, 0 for the others, row by row. Throws INVALID_ARGUMENT if it has no images or
// masks of its own, if squares do not consist of whole patches, or images of whole squares.
std::shared_ptr<Dataset> with_masked_patches(std::shared_ptr<Dataset> dataset, PatchMasking masking,
                                             SettingName called = own_name);

}  // namespace weft::data
