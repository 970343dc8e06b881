// The model library of T5.
#include "t5_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::t5::make_model)
