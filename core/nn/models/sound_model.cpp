#include "weft/nn/sound_model.hpp"

namespace weft::nn {

const SoundModel* find_sound_model(const Model& model) {
  return dynamic_cast<const SoundModel*>(&model);
}

}  // namespace weft::nn
