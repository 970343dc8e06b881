#include <utility>

#include "streams/node.hpp"
#include "streams/region.hpp"
#include "streams/whole_residual_stream.hpp"

namespace weft::parallel {

at::Tensor ResidualStream::leave_product(const nn::Linear& layer, const at::Tensor& x) {
  return leave(nn::product(layer, x, layer.weight, {}));
}

std::shared_ptr<nn::AttentionOperation> ResidualStream::attention(const std::shared_ptr<ResidualStream>&) {
  return nullptr;
}

namespace {

class StreamBias final : public nn::PositionBiasOperation {
 public:
  explicit StreamBias(std::shared_ptr<const ResidualStream> stream) : stream_(std::move(stream)) {}
  Part part(int64_t heads) const override { return stream_->bias_part(heads, stream_->length()); }

 private:
  const std::shared_ptr<const ResidualStream> stream_;
};

}  // namespace

std::shared_ptr<nn::PositionBiasOperation> ResidualStream::position_bias() {
  return std::make_shared<StreamBias>(shared_from_this());
}

at::Tensor ResidualStream::end(const at::Tensor& x) {
  if (!positions_) return x;
  const auto gradient_of_own = [positions = *positions_,
                                times = times_counted()](const at::Tensor& gradient) {
    return positions.own(gradient).mul(static_cast<double>(times));
  };
  return with_gradient(positions_->gathered(x, length()), x, gradient_of_own);
}

namespace {

class WholeInput final : public RegionInput {
 public:
  WholeInput(Communicator ranks, int64_t readers) : ranks_(std::move(ranks)), readers_(readers) {}
  at::Tensor linear(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                    const at::Tensor& bias) override {
    return nn::product(layer, readers_ == 1 ? enter(x, ranks_) : shared(x), weight, bias);
  }

 private:
  struct Crossing {
    at::Tensor outside, inside;
    int64_t left = 0;  // readers that have not run yet
  };
  at::Tensor shared(const at::Tensor& x) {
    Crossing& crossing = nn::RunningUnit::current().kept().of<Crossing>(this);
    if (crossing.left == 0 || !crossing.outside.is_same(x)) crossing = {x, enter(x, ranks_), readers_};
    if (--crossing.left > 0) return crossing.inside;
    return std::exchange(crossing, Crossing()).inside;  // the last reader releases the memory
  }

  const Communicator ranks_;
  const int64_t readers_;
};

}  // namespace

WholeResidualStream::WholeResidualStream(const StreamSetting& setting, std::optional<Positions> positions)
    : ResidualStream(setting.sequence, positions, positions ? positions->ranks().size() : 1),
      ranks_(setting.tensor) {}

at::Tensor WholeResidualStream::leave(const at::Tensor& partial) {
  return parallel::leave(partial, ranks_);
}

at::Tensor WholeResidualStream::enter(const at::Tensor& x) {
  return parallel::enter(x, ranks_);
}

std::shared_ptr<RegionInput> WholeResidualStream::input(int64_t readers) {
  return std::make_shared<WholeInput>(ranks_, readers);
}

// Every rank holds all positions.
std::shared_ptr<ResidualStream> make_whole(const StreamSetting& setting) {
  return std::make_shared<WholeResidualStream>(setting);
}

}  // namespace weft::parallel
