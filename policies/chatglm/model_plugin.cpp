// The model library of ChatGLM2.
#include "chatglm_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::chatglm::make_model)
