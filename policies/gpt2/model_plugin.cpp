// The model library of GPT-2.
#include "gpt2_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::gpt2::make_model)
