// The model library of Whisper.
#include "weft/nn/define_model.hpp"
#include "whisper_model.hpp"

WEFT_MODEL_FAMILY(weft::whisper::make_model)
