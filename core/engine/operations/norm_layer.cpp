#include "parallel/residual_stream.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/site.hpp"
#include "weft/operation.hpp"

namespace weft::operations {

namespace {

// Sums the gradients of a norm's parameters over all positions of the residual stream.
class StreamNorm final : public nn::NormOperation {
 public:
  explicit StreamNorm(std::shared_ptr<parallel::ResidualStream> stream) : stream_(std::move(stream)) {}
  at::Tensor parameter(const at::Tensor& parameter) const override { return stream_->parameter(parameter); }

 private:
  std::shared_ptr<parallel::ResidualStream> stream_;
};

template <class Norm>
void install_norm(Site& site, const plan::Attributes& attributes) {
  auto& layer = site.layer<Norm>();
  site.set(layer.fused, attributes.flag("fused"));
  if (site.splits_layers() && attributes.flag("split"))
    site.set(layer.operation, std::make_shared<StreamNorm>(site.stream()));
}

}  // namespace

void install_layer_norm(Site& site, const plan::Attributes& attributes) {
  install_norm<nn::LayerNorm>(site, attributes);
}

void install_rms_norm(Site& site, const plan::Attributes& attributes) {
  install_norm<nn::RmsNorm>(site, attributes);
}

}  // namespace weft::operations
