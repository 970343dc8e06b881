// What goes through a model between its tensor-parallel regions (the residual stream), and its borders with
// them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/positions.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/layers.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// The border for some linear layers that read the same tensor of the stream, so that it is crossed once for
// all of them.
class RegionInput {
 public:
  virtual ~RegionInput() = default;
  // Computes the layer's product (nn::product) with what `x` is inside. `weight` and `bias` are this rank's
  // part of the layer's. Layers of one unit that pass the same `x` one after another cross together.
  virtual at::Tensor linear(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) = 0;
};

class ResidualStream : public std::enable_shared_from_this<ResidualStream> {
 public:
  virtual ~ResidualStream() = default;
  // Out of a region: what the stream has here of the sum of the ranks' partial results, whose memory nobody
  // else may need.
  virtual at::Tensor leave(const at::Tensor& partial) = 0;
  // The same of the layer's product (nn::product) of `x` and its weight, without its bias.
  virtual at::Tensor leave_product(const nn::Linear& layer, const at::Tensor& x);
  // Into a region, for whoever reads it there; its gradient is summed over the ranks.
  virtual at::Tensor enter(const at::Tensor& x) = 0;
  virtual std::shared_ptr<RegionInput> input(int64_t readers) = 0;
  // A parameter of a layer that works on the stream: with a complete gradient.
  virtual at::Tensor parameter(const at::Tensor& parameter) = 0;

  // Of something by position (B, T, ...), what belongs to the positions that the stream has here, and what to
  // those that a region has.
  at::Tensor own(const at::Tensor& by_position) const {
    return positions_ ? positions_->own(by_position) : by_position;
  }
  virtual at::Tensor inside(const at::Tensor& by_position) const { return own(by_position); }
  bool is_split() const { return positions_.has_value(); }
  // Returns what attention does with queries of this stream and with keys and values of `source`, which may
  // be this one; null where regions have all positions.
  virtual std::shared_ptr<nn::AttentionOperation> attention(const std::shared_ptr<ResidualStream>& source);
  // Returns which part of a bias by position that attention wants.
  virtual std::shared_ptr<nn::PositionBiasOperation> position_bias();
  // Only of a stream that is split.
  const Positions& positions() const { return positions_.value(); }
  // Marks where a sequence begins: returns ids (B, T) as they are.
  at::Tensor begin(const at::Tensor& ids) { return ids; }
  // To where every rank goes on with all positions.
  at::Tensor end(const at::Tensor& x);
  // How often gradients of the same samples are added up: the ranks of a sequence axis, each of which has a
  // loss of all positions. Whoever makes a loss of its own positions alone multiplies it by this.
  int64_t times_counted() const { return times_counted_; }

  // Returns the number of positions of this stream's sequence in the forward that this thread runs.
  int64_t length() const { return nn::ForwardContext::current().sequence(sequence_).positions; }
  // Returns which of `total` positions the stream has here.
  std::vector<Run> own(int64_t total) const {
    return positions_ ? positions_->of(positions_->ranks().rank(), total) : std::vector<Run>{{0, total}};
  }

 protected:
  ResidualStream(std::string sequence, std::optional<Positions> positions, int64_t times_counted)
      : positions_(std::move(positions)), sequence_(std::move(sequence)), times_counted_(times_counted) {}
  const std::optional<Positions> positions_;  // none: all of them

 private:
  const std::string sequence_;  // its name in the context of a forward
  const int64_t times_counted_;
};

// Makes the stream of a sequence, which Model::lengths names `sequence`; so do the others. The tensor ranks
// `ranks` have all positions.
std::shared_ptr<ResidualStream> whole_residual_stream(std::string sequence, Communicator ranks);

// The tensor ranks have the same positions, those of this rank of the sequence axis `along`, whose ranks are
// data-parallel to each other. Positions are in order, and attention exchanges them for heads
// (head_scatter_attention).
std::shared_ptr<ResidualStream> head_scatter_residual_stream(std::string sequence, Communicator ranks,
                                                             Communicator along);
// The same with positions in zigzag, and attention that passes keys and values on (ring_attention).
std::shared_ptr<ResidualStream> ring_attention_residual_stream(std::string sequence, Communicator ranks,
                                                               Communicator along, int inner_ring);

// Split along the sequence (dimension 1) over the tensor ranks themselves (Korthikanti et al., Reducing
// activation recomputation in large transformer models, 2022, section 4.2.2). Leaving is a reduce-scatter,
// entering an all-gather, and the other way round backward. What layers gather no rank keeps: for the
// gradients of their weights it is gathered again, with `overlaps` while their input's is computed.
std::shared_ptr<ResidualStream> split_residual_stream(std::string sequence, Communicator ranks,
                                                      bool overlaps);

// The same in rings: parts travel from rank to rank while each computes with the one it has.
std::shared_ptr<ResidualStream> ring_residual_stream(std::string sequence, Communicator ranks);

}  // namespace weft::parallel
