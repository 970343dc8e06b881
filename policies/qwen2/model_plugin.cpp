// The model library of Qwen2.
#include "qwen2_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::qwen2::make_model)
