#include "nn/random_stream.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/site.hpp"
#include "weft/operation.hpp"

namespace weft::operations {

namespace {

void choose_form(Site& site, const plan::Attributes& attributes) {
  site.set(site.layer<nn::Fusible>().fused, attributes.flag("fused"));
}

// A norm inside of a tensor-parallel region, where each rank normalizes its own features.
class RegionNorm final : public nn::NormOperation {
 public:
  explicit RegionNorm(Site::Summed summed) : summed_(std::move(summed)) {}
  at::Tensor parameter(const at::Tensor& parameter) const override { return summed_(parameter); }

 private:
  const Site::Summed summed_;
};

template <class Norm>
void install_norm(Site& site, const plan::Attributes& attributes) {
  choose_form(site, attributes);
  if (site.splits_layers() && attributes.flag("split"))
    site.set(site.layer<Norm>().operation, std::make_shared<RegionNorm>(site.summed_gradient("weight")));
}

}  // namespace

void install_activation(Site& site, const plan::Attributes& attributes) {
  choose_form(site, attributes);
}

void install_layer_norm(Site& site, const plan::Attributes& attributes) {
  install_norm<nn::LayerNorm>(site, attributes);
}

void install_rms_norm(Site& site, const plan::Attributes& attributes) {
  install_norm<nn::RmsNorm>(site, attributes);
}

void install_dropout(Site& site, const plan::Attributes& attributes) {
  choose_form(site, attributes);
  if (site.splits_layers() && attributes.flag("split"))
    site.set(site.layer<nn::Dropout>().random_stream, nn::random_stream_of(site.tensor().rank()));
}

}  // namespace weft::operations
