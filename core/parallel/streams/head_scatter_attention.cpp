#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <numeric>

#include "base/text.hpp"
#include "streams/node.hpp"
#include "streams/stream_attention.hpp"
#include "streams/whole_residual_stream.hpp"

namespace weft::parallel {

namespace {

// The split sizes of an all-to-all along the first dimension, in which every rank sends `rows_of_a_position`
// rows for each of its positions to every other rank.
struct Splits {
  std::vector<int64_t> by_position, by_rank;
  Splits(const Positions& positions, int64_t total, int64_t rows_of_a_position) {
    const Communicator& ranks = positions.ranks();
    for (int rank = 0; rank < ranks.size(); ++rank) {
      by_position.push_back(positions.count(rank, total) * rows_of_a_position);
      by_rank.push_back(positions.count(ranks.rank(), total) * rows_of_a_position);
    }
  }
};

// Exchanges positions for heads: (B, t, P, h, D) -> (B, T, h, D). Each rank gets its h heads of all
// positions.
at::Tensor by_heads(const at::Tensor& x, const Positions& positions, int64_t total) {
  const at::NoGradGuard no_graph;
  const int64_t batch = x.size(0), heads = x.size(3), size = x.size(4);
  const Splits splits(positions, total, batch * heads);
  const at::Tensor received = at::empty({total * batch * heads, size}, x.options());
  const at::Tensor sent = x.detach().permute({2, 0, 1, 3, 4}).contiguous().view({-1, size});
  positions.ranks().all_to_all(received, sent, splits.by_position, splits.by_rank).wait();
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (const int64_t rows : splits.by_position) {
    parts.push_back(received.narrow(0, begin, rows).view({batch, -1, heads, size}));
    begin += rows;
  }
  return at::cat(parts, 1);
}

// Exchanges heads for positions: (B, T, h, D) -> (B, t, P h, D).
at::Tensor by_positions(const at::Tensor& x, const Positions& positions) {
  const at::NoGradGuard no_graph;
  const int64_t batch = x.size(0), total = x.size(1), heads = x.size(2), size = x.size(3);
  const Splits splits(positions, total, batch * heads);
  std::vector<at::Tensor> parts;
  const int ranks = positions.ranks().size();
  for (int rank = 0; rank < ranks; ++rank)
    parts.push_back(positions.of(rank, x.detach()).reshape({-1, size}));
  const int64_t own = positions.count(positions.ranks().rank(), total);
  const at::Tensor received = at::empty({ranks * batch * own * heads, size}, x.options());
  positions.ranks().all_to_all(received, at::cat(parts), splits.by_rank, splits.by_position).wait();
  return received.view({ranks, batch, own, heads, size}).permute({1, 2, 0, 3, 4}).contiguous();
}

// Attention by all-to-all (Jacobs et al., DeepSpeed Ulysses, arXiv:2309.14509): before attention the ranks
// exchange positions for heads, so that each attends to the whole sequence with its own heads; afterwards
// they exchange back. The number of heads must be a multiple of the number of ranks. If there are fewer heads
// of keys and values than ranks, they are repeated.
class HeadScatterAttention final : public StreamAttention {
 public:
  using StreamAttention::StreamAttention;

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                     const nn::AttentionOptions& options) const override {
    const Positions& positions = stream().positions();
    const int64_t ranks = positions.ranks().size(), total = stream().length();
    const int64_t repeated = ranks / std::gcd(k.size(2), ranks), groups = k.size(2) * repeated;
    if (q.size(2) % groups != 0)
      fail(WEFT_INVALID_ARGUMENT,
           "attention: {} heads, {} of keys and values, cannot be given to {} ranks of a sequence axis",
           q.size(2), k.size(2), ranks);
    const auto shares = [&](const at::Tensor& x) {
      const at::Tensor heads = x.size(2) % ranks == 0 ? x : x.repeat_interleave(repeated, 2);
      return heads.unflatten(2, {ranks, -1});
    };
    const auto scatter = [&](const at::Tensor& x, int64_t positions_of_all) {
      return with_gradient(
          by_heads(x, positions, positions_of_all), x,
          [positions](const at::Tensor& gradient) { return by_positions(gradient, positions); });
    };
    const int64_t heads = q.size(2) / ranks, shared = groups / ranks;
    at::Tensor queries, keys_values;
    if (&source() == &stream()) {  // one all-to-all for all three
      const at::Tensor all = scatter(at::cat({shares(q), shares(k), shares(v)}, 3), total);
      queries = all.narrow(2, 0, heads);
      keys_values = all.narrow(2, heads, 2 * shared);
    } else {
      queries = scatter(shares(q), total);
      keys_values = scatter(at::cat({shares(k), shares(v)}, 3), source().length());
    }
    const at::Tensor mixed = nn::self_attention(queries, keys_values.narrow(2, 0, shared),
                                                keys_values.narrow(2, shared, shared), mask, options)
                                 .unflatten(-1, {heads, -1});
    return with_gradient(by_positions(mixed, positions), mixed,
                         [positions, total](const at::Tensor& gradient) {
                           return by_heads(gradient, positions, total);
                         })
        .flatten(2);
  }
};

class AllToAllResidualStream final : public WholeResidualStream {
 public:
  explicit AllToAllResidualStream(const StreamSetting& setting)
      : WholeResidualStream(setting, Positions(setting.along, setting.order)) {}
  std::shared_ptr<nn::AttentionOperation> attention(const std::shared_ptr<ResidualStream>& source) override {
    return std::make_shared<HeadScatterAttention>(shared_from_this(), source);
  }
  // This rank's heads.
  BiasPart bias_part(int64_t heads, int64_t total) const override {
    const Communicator& ranks = positions().ranks();
    const int64_t own = heads / ranks.size();
    return {total, {{0, total}}, {ranks.rank() * own, own}};
  }
};

}  // namespace

// The stream is split over the ranks of the sequence axis; the tensor ranks hold the same positions.
std::shared_ptr<ResidualStream> make_all_to_all(const StreamSetting& setting) {
  return std::make_shared<AllToAllResidualStream>(setting);
}

}  // namespace weft::parallel
