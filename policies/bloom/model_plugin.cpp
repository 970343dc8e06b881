// The model library of Bloom.
#include "bloom_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::bloom::make_model)
