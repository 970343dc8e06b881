// What a checkpoint may lack of a model's parameters.
#pragma once

namespace weft::checkpoint {

enum class Missing {
  kAnything,  // the rest begins with initial values
  kHead,      // what is outside the base model, or what an adapter added
  kNothing
};

}  // namespace weft::checkpoint
