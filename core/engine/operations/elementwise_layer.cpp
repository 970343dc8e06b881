#include "weft/nn/site.hpp"
#include "weft/operation.hpp"

namespace weft::operations {

void install_activation(Site& site, const plan::Attributes& attributes) {
  site.set(site.layer<nn::Fusible>().fused, attributes.flag("fused"));
}

void install_dropout(Site& site, const plan::Attributes& attributes) {
  auto& layer = site.layer<nn::Dropout>();
  site.set(layer.fused, attributes.flag("fused"));
  if (site.splits_layers() && attributes.flag("split"))
    site.set(layer.random_stream, static_cast<uint64_t>(site.tensor().rank()) + 1);
}

}  // namespace weft::operations
