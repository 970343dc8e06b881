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
    if (left_ == 0 || !outside_.is_same(x)) {
      outside_ = x;
      inside_ = enter(x, ranks_);
      left_ = readers_;
    }
    const at::Tensor inside = inside_;
    if (--left_ == 0) {  // nothing is held between forwards
      outside_.reset();
      inside_.reset();
    }
    return nn::linear(inside, weight, bias, layout);
  }

 private:
  Communicator ranks_;
  const int64_t readers_;
  int64_t left_ = 0;  // readers to come
  at::Tensor outside_, inside_;
};

class WholeResidualStream final : public ResidualStream {
 public:
  WholeResidualStream(Communicator ranks, std::optional<Positions> positions)
      : ResidualStream(positions, positions ? positions->ranks().size() : 1), ranks_(std::move(ranks)) {}
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

std::shared_ptr<ResidualStream> whole_residual_stream(Communicator ranks,
                                                      std::optional<Positions> positions) {
  return std::make_shared<WholeResidualStream>(std::move(ranks), std::move(positions));
}

}  // namespace weft::parallel
