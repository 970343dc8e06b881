// The model library of OPT.
#include "opt_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::opt::make_model)
