#include <functional>

#include "parallel/attention.hpp"

namespace weft::parallel {

namespace {

class StreamBias final : public nn::PositionBiasOperation {
 public:
  using Choice = std::function<void(const ResidualStream& stream, Part& part)>;
  StreamBias(std::shared_ptr<ResidualStream> stream, Choice choose)
      : stream_(std::move(stream)), choose_(std::move(choose)) {}
  Part part(int64_t heads) const override {
    const int64_t positions = stream_->length();
    Part part = {positions, {{0, positions}}, {0, heads}};
    choose_(*stream_, part);
    return part;
  }

 private:
  const std::shared_ptr<ResidualStream> stream_;
  const Choice choose_;
};

}  // namespace

std::shared_ptr<nn::PositionBiasOperation> head_scatter_bias(std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<StreamBias>(
      std::move(stream), [](const ResidualStream& stream, nn::PositionBiasOperation::Part& part) {
        const Communicator& ranks = stream.positions().ranks();
        part.heads.count /= ranks.size();
        part.heads.begin = ranks.rank() * part.heads.count;
      });
}

std::shared_ptr<nn::PositionBiasOperation> ring_bias(std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<StreamBias>(
      std::move(stream), [](const ResidualStream& stream, nn::PositionBiasOperation::Part& part) {
        const Positions& positions = stream.positions();
        part.queries = positions.of(positions.ranks().rank(), part.positions);
      });
}

std::shared_ptr<nn::PositionBiasOperation> whole_bias(std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<StreamBias>(std::move(stream),
                                      [](const ResidualStream&, nn::PositionBiasOperation::Part&) {});
}

}  // namespace weft::parallel
