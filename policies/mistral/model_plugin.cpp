// The model library of Mistral.
#include "mistral_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::mistral::make_model)
