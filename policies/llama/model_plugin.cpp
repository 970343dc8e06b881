// The model library of Llama.
#include "llama_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::llama::make_model)
