// Statistics of layers over the samples of all ranks.
#pragma once

#include "weft/nn/model.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// Makes the layers of `model` that ask for it (nn::BatchNorm::Options::synchronised) sum their statistics
// over `samples`, the ranks that train on different samples. Those of one rank do not communicate.
void synchronise_statistics(const nn::Model& model, const Communicator& samples);

}  // namespace weft::parallel
