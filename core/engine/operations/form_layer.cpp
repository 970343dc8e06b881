#include "nn/random_stream.hpp"
#include "weft/nn/site.hpp"
#include "weft/operation.hpp"

namespace weft::operations {

namespace {

void choose_form(Site& site, const plan::Attributes& attributes) {
  site.set(site.layer<nn::Fusible>().fused, attributes.flag("fused"));
}

}  // namespace

void install_activation(Site& site, const plan::Attributes& attributes) {
  choose_form(site, attributes);
}

void install_layer_norm(Site& site, const plan::Attributes& attributes) {
  choose_form(site, attributes);
}

void install_rms_norm(Site& site, const plan::Attributes& attributes) {
  choose_form(site, attributes);
}

void install_dropout(Site& site, const plan::Attributes& attributes) {
  choose_form(site, attributes);
  if (site.splits_layers() && attributes.flag("split"))
    site.set(site.layer<nn::Dropout>().random_stream, nn::random_stream_of(site.tensor().rank()));
}

}  // namespace weft::operations
