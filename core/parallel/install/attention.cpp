#include "streams/residual_stream.hpp"
#include "weft/nn/alibi.hpp"
#include "weft/nn/site.hpp"
#include "weft/operation.hpp"

namespace weft::operations {

namespace {

// Installs attention to keys and values of the residual stream `source`.
void install(Site& site, const std::shared_ptr<parallel::ResidualStream>& source) {
  auto& layer = site.layer<nn::Attention>();
  if (site.splits_sequence()) site.set(layer.operation, parallel::stream_of(site)->attention(source));
}

}  // namespace

void install_attention(Site& site, const plan::Attributes&) {
  install(site, parallel::stream_of(site));
}

void install_cross_attention(Site& site, const plan::Attributes& attributes) {
  install(site, parallel::stream_below(site, attributes.text("source")));
}

void install_plain_attention(Site& site) {
  site.set(site.layer<nn::Attention>().fused, false);
}

void install_alibi(Site& site, const plan::Attributes&) {
  if (!site.is_parallel()) return;
  auto& layer = site.layer<nn::Alibi>();
  const int64_t count = layer.heads.count / site.tensor().size();
  site.set(layer.heads, Run{site.tensor().rank() * count, count});
  site.set(layer.operation, parallel::stream_of(site)->position_bias());
}

void install_attention_bias(Site& site, const plan::Attributes&) {
  if (!site.is_parallel()) return;
  site.set(site.layer<nn::RelativeAttentionBias>().operation, parallel::stream_of(site)->position_bias());
}

}  // namespace weft::operations
