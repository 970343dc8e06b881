// The model library of ViT.
#include "vit_model.hpp"
#include "weft/nn/define_model.hpp"

WEFT_MODEL_FAMILY(weft::vit::make_model)
