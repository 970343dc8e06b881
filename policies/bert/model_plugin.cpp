// The model library of BERT.
#include "bert_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::bert::make_model)
