#include "layers/random_stream.hpp"
#include "streams/summed_gradient.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/site.hpp"
#include "weft/operation.hpp"

namespace weft::operations {

namespace {

// Sums the gradients of a norm's parameters if the norm is inside a tensor-parallel region, where each rank
// normalizes the features of its own heads. A norm without parameters needs nothing.
template <class Norm>
void install_norm(Site& site, const plan::Attributes& attributes) {
  auto& norm = site.layer<Norm>();
  if (site.splits_layers() && attributes.flag("split") && norm.weight.defined())
    site.set(norm.operation, std::make_shared<parallel::SummedNorm>(site.summed_gradient("weight")));
}

}  // namespace

void install_activation(Site& site, const plan::Attributes&) {
  site.layer<nn::Fusible>();  // refuses a module of another class
}

void install_layer_norm(Site& site, const plan::Attributes& attributes) {
  install_norm<nn::LayerNorm>(site, attributes);
}

void install_rms_norm(Site& site, const plan::Attributes& attributes) {
  install_norm<nn::RmsNorm>(site, attributes);
}

void install_dropout(Site& site, const plan::Attributes& attributes) {
  site.layer<nn::Fusible>();  // refuses a module of another class
  if (site.splits_layers() && attributes.flag("split"))
    site.set(site.layer<nn::Dropout>().random_stream, nn::random_stream_of(site.tensor().rank()));
}

void install_plain_normalization(Site& site) {
  site.set(site.layer<nn::Fusible>().fused, false);
}

void install_plain_elementwise(Site& site) {
  site.set(site.layer<nn::Fusible>().fused, false);
}

}  // namespace weft::operations
