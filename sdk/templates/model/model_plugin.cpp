// The model library.
#include <weft/nn/define_model.hpp>

#include "model.hpp"

WEFT_MODEL_FAMILY(template_name_family::make_model)
