// The residual stream: the activations that pass from one tensor-parallel region to the next. A stream
// decides whether every rank holds all positions or a part of them, and how activations enter and leave a
// region. Its sequence mode (core/plans/sequence_modes) lists what it sends.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "streams/positions.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/residual_stream.hpp"
#include "weft/nn/site.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

using nn::RegionInput;

// The base of all residual streams, with what Weft's own layers need.
class ResidualStream : public nn::ResidualStream, public std::enable_shared_from_this<ResidualStream> {
 public:
  at::Tensor leave_product(const nn::Linear& layer, const at::Tensor& x) override;
  at::Tensor own(const at::Tensor& by_position) const override {
    return positions_ ? positions_->own(by_position) : by_position;
  }
  at::Tensor inside(const at::Tensor& by_position) const override {
    return splits_regions() ? own(by_position) : by_position;
  }
  bool is_split() const override { return positions_.has_value(); }

  // Returns the attention of queries of this stream to keys and values of `source`, which may be this stream.
  // Returns null if regions have all positions, so that layers attend by themselves.
  virtual std::shared_ptr<nn::AttentionOperation> attention(const std::shared_ptr<ResidualStream>& source);
  using BiasPart = nn::PositionBiasOperation::Part;
  // Returns the part of a position bias that attention reads on this rank. `heads` is the number of heads of
  // the layer, `total` that of positions.
  virtual BiasPart bias_part(int64_t heads, int64_t total) const { return {total, {{0, total}}, {0, heads}}; }
  // Returns the operation that selects this part for the running unit.
  std::shared_ptr<nn::PositionBiasOperation> position_bias();
  // Returns how positions are split. The stream must be split.
  const Positions& positions() const { return positions_.value(); }
  // Marks where a sequence begins. Returns `ids` (B, T) unchanged, because embeddings take their part
  // themselves.
  at::Tensor begin(const at::Tensor& ids) { return ids; }
  // Begins the split of `x` (B, T, ...), of which every rank has all positions: returns this rank's. In
  // backward every tensor rank gets the gradient of all positions; the ranks of a sequence axis, which are
  // data-parallel, get that of their own.
  virtual at::Tensor split(const at::Tensor& x) { return own(x); }
  // Ends the split: returns `x` with all positions on every rank (one all-gather if the stream is split).
  at::Tensor end(const at::Tensor& x);
  // Returns how often the gradients of one sample are summed: once for each rank of a sequence axis, because
  // the ranks of that axis are data-parallel and each computes the loss of all positions. A head that
  // computes the loss of this rank's positions alone multiplies it by this number.
  int64_t times_counted() const { return times_counted_; }

  // Returns the number of positions of this stream's sequence in the forward pass that this thread runs.
  // Throws FAILED_PRECONDITION outside of a unit.
  int64_t length() const { return nn::ForwardContext::current().sequence(sequence_).positions; }
  // Returns which of `total` positions the residual stream has on this rank.
  std::vector<Run> own(int64_t total) const {
    return positions_ ? positions_->of(positions_->ranks().rank(), total) : std::vector<Run>{{0, total}};
  }
  // Returns which of `total` positions a region works on on this rank.
  std::vector<Run> inside(int64_t total) const {
    return splits_regions() ? own(total) : std::vector<Run>{{0, total}};
  }

 protected:
  ResidualStream(std::string sequence, std::optional<Positions> positions, int64_t times_counted)
      : positions_(std::move(positions)), sequence_(std::move(sequence)), times_counted_(times_counted) {}
  // Returns false if regions work on all positions of a split stream.
  virtual bool splits_regions() const { return true; }
  const std::optional<Positions> positions_;  // empty if every rank has all positions

 private:
  const std::string sequence_;  // its name in the ForwardContext
  const int64_t times_counted_;
};

// What a residual stream is made of.
struct StreamSetting {
  std::string sequence = {};                          // which passes through it, as Model::lengths calls it
  Communicator tensor = {};                           // the ranks of the tensor axis
  Communicator along = {};                            // the ranks of the sequence axis
  Segments::Order order = Segments::Order::kInOrder;  // of the positions, if they are split
  bool overlaps = false;                              // the option enable_sequence_overlap
  int inner_ring = 1;                                 // a divisor of the number of ranks of the sequence axis
};

// Return the streams of a site whole, as Weft's own operations use them.
inline std::shared_ptr<ResidualStream> stream_of(const Site& site) {
  return std::static_pointer_cast<ResidualStream>(site.stream());
}
inline std::shared_ptr<ResidualStream> stream_below(const Site& site, const std::string& path) {
  return std::static_pointer_cast<ResidualStream>(site.stream_below(path));
}

// Returns the function that makes the residual stream of a sequence mode, null if the mode has none.
using MakeStream = std::shared_ptr<ResidualStream> (*)(const StreamSetting& setting);
MakeStream stream_maker(std::string_view mode);

}  // namespace weft::parallel
