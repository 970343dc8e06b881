#include <utility>

#include "layers/linear.hpp"
#include "streams/attention.hpp"
#include "streams/node.hpp"
#include "streams/region.hpp"
#include "streams/residual_stream.hpp"

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

class WholeResidualStream : public ResidualStream {
 public:
  WholeResidualStream(std::string sequence, Communicator ranks, std::optional<Positions> positions)
      : ResidualStream(std::move(sequence), positions, positions ? positions->ranks().size() : 1),
        ranks_(std::move(ranks)) {}
  at::Tensor leave(const at::Tensor& partial) override { return parallel::leave(partial, ranks_); }
  at::Tensor enter(const at::Tensor& x) override { return parallel::enter(x, ranks_); }
  std::shared_ptr<RegionInput> input(int64_t readers) override {
    return std::make_shared<WholeInput>(ranks_, readers);
  }
  at::Tensor parameter(const at::Tensor& parameter) override { return parameter; }

 private:
  Communicator ranks_;
};

class HeadScatterResidualStream final : public WholeResidualStream {
 public:
  HeadScatterResidualStream(std::string sequence, Communicator ranks, Communicator along)
      : WholeResidualStream(std::move(sequence), std::move(ranks),
                            Positions(std::move(along), Positions::Order::kInOrder)) {}
  std::shared_ptr<nn::AttentionOperation> attention(const std::shared_ptr<ResidualStream>& source) override {
    return head_scatter_attention(shared_from_this(), source);
  }
  // This rank's heads.
  BiasPart bias_part(int64_t heads, int64_t total) const override {
    const Communicator& ranks = positions().ranks();
    const int64_t own = heads / ranks.size();
    return {total, {{0, total}}, {ranks.rank() * own, own}};
  }
};

class RingAttentionResidualStream final : public WholeResidualStream {
 public:
  RingAttentionResidualStream(std::string sequence, Communicator ranks, Communicator along, int inner_ring)
      : WholeResidualStream(std::move(sequence), std::move(ranks),
                            Positions(std::move(along), Positions::Order::kZigzag)),
        inner_ring_(inner_ring) {}
  std::shared_ptr<nn::AttentionOperation> attention(const std::shared_ptr<ResidualStream>& source) override {
    return ring_attention(shared_from_this(), source, inner_ring_);
  }
  // This rank's queries.
  BiasPart bias_part(int64_t heads, int64_t total) const override { return {total, own(total), {0, heads}}; }

 private:
  const int inner_ring_;
};

}  // namespace

std::shared_ptr<ResidualStream> whole_residual_stream(std::string sequence, Communicator ranks) {
  return std::make_shared<WholeResidualStream>(std::move(sequence), std::move(ranks), std::nullopt);
}

std::shared_ptr<ResidualStream> head_scatter_residual_stream(std::string sequence, Communicator ranks,
                                                             Communicator along) {
  return std::make_shared<HeadScatterResidualStream>(std::move(sequence), std::move(ranks), std::move(along));
}

std::shared_ptr<ResidualStream> ring_attention_residual_stream(std::string sequence, Communicator ranks,
                                                               Communicator along, int inner_ring) {
  return std::make_shared<RingAttentionResidualStream>(std::move(sequence), std::move(ranks),
                                                       std::move(along), inner_ring);
}

}  // namespace weft::parallel
