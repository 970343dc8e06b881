// The model library of Qwen3.
#include "qwen3_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::qwen3::make_model)
