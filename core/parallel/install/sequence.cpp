#include "streams/residual_stream.hpp"
#include "weft/nn/site.hpp"
#include "weft/operation.hpp"

namespace weft::operations {

namespace {

class StreamBorder final : public nn::IdentityOperation {
 public:
  using Cross = at::Tensor (parallel::ResidualStream::*)(const at::Tensor&);
  StreamBorder(std::shared_ptr<parallel::ResidualStream> stream, Cross cross)
      : stream_(std::move(stream)), cross_(cross) {}
  at::Tensor forward(const at::Tensor& x) const override { return (*stream_.*cross_)(x); }

 private:
  std::shared_ptr<parallel::ResidualStream> stream_;
  const Cross cross_;
};

void install(Site& site, StreamBorder::Cross cross) {
  site.set(site.layer<nn::Identity>().operation,
           std::make_shared<StreamBorder>(parallel::stream_of(site), cross));
}

}  // namespace

void install_parallel_input(Site& site, const plan::Attributes&) {
  if (site.splits_layers()) install(site, &parallel::ResidualStream::enter);
}

void install_sequence_begin(Site& site, const plan::Attributes&) {
  if (site.is_parallel()) install(site, &parallel::ResidualStream::begin);
}

void install_sequence_end(Site& site, const plan::Attributes&) {
  if (site.is_parallel()) install(site, &parallel::ResidualStream::end);
}

void install_sequence_split(Site& site, const plan::Attributes&) {
  if (site.is_parallel()) install(site, &parallel::ResidualStream::split);
}

}  // namespace weft::operations
