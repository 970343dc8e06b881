#include <utility>

#include "nn/linear.hpp"
#include "parallel/node.hpp"
#include "parallel/region.hpp"
#include "parallel/residual_stream.hpp"

namespace weft::parallel {

at::Tensor ResidualStream::leave_product(const at::Tensor& x, const at::Tensor& weight,
                                         nn::Linear::Layout layout) {
  return leave(nn::linear(x, weight, {}, layout));
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
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    nn::Linear::Layout layout) override {
    return nn::linear(readers_ == 1 ? enter(x, ranks_) : shared(x), weight, bias, layout);
  }

 private:
  struct Crossing {
    at::Tensor outside, inside;
    int64_t left = 0;  // readers to come
  };
  at::Tensor shared(const at::Tensor& x) {
    Crossing& crossing = nn::RunningUnit::current().kept<Crossing>(this);
    if (crossing.left == 0 || !crossing.outside.is_same(x)) crossing = {x, enter(x, ranks_), readers_};
    if (--crossing.left > 0) return crossing.inside;
    return std::exchange(crossing, Crossing()).inside;  // no memory after the last reader
  }

  const Communicator ranks_;
  const int64_t readers_;
};

class WholeResidualStream final : public ResidualStream {
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

}  // namespace

std::shared_ptr<ResidualStream> whole_residual_stream(std::string sequence, Communicator ranks,
                                                      std::optional<Positions> positions) {
  return std::make_shared<WholeResidualStream>(std::move(sequence), std::move(ranks), std::move(positions));
}

}  // namespace weft::parallel
