#include "streams/ring.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

namespace weft::parallel {

namespace {

constexpr uint32_t kTag = 1;

// Returns the rank that is `steps` behind this one in the ring.
int behind(const Communicator& ranks, int steps) {
  return (ranks.rank() - steps + ranks.size()) % ranks.size();
}

// Receives a part from the rank behind. Empty parts are not sent.
struct Arrival {
  at::Tensor tensor;
  Work work;
  Arrival(const Communicator& ranks, at::DimVector shape, int64_t positions,
          const at::TensorOptions& options) {
    shape[1] = positions;
    tensor = at::empty(shape, options);
    if (tensor.numel() > 0) work = ranks.recv(tensor, behind(ranks, 1), kTag);
  }
};

Work send_ahead(const Communicator& ranks, const at::Tensor& tensor) {
  return tensor.numel() > 0 ? ranks.send(tensor, behind(ranks, -1), kTag) : Work();
}

}  // namespace

void visit_parts(const Positions& positions, const at::Tensor& part, int64_t total,
                 const std::function<void(int rank, const at::Tensor& part)>& visit) {
  const at::NoGradGuard no_graph;
  const Communicator& ranks = positions.ranks();
  at::Tensor here = part.detach().contiguous();
  for (int step = 0; step < ranks.size(); ++step) {
    if (step + 1 == ranks.size()) return visit(behind(ranks, step), here);
    Arrival next(ranks, at::DimVector(part.sizes()), positions.count(behind(ranks, step + 1), total),
                 part.options());
    Work sent = send_ahead(ranks, here);
    visit(behind(ranks, step), here);
    sent.wait();
    next.work.wait();
    here = next.tensor;
  }
}

// The sum for a rank starts at the rank ahead of it and travels around the ring to the rank itself.
at::Tensor sum_parts(const Positions& positions, int64_t total,
                     const std::function<at::Tensor(int rank)>& partial) {
  const at::NoGradGuard no_graph;
  const Communicator& ranks = positions.ranks();
  at::Tensor sum = partial(behind(ranks, 1)).contiguous();
  for (int step = 1; step < ranks.size(); ++step) {
    const int rank = behind(ranks, step + 1);
    Work sent = send_ahead(ranks, sum);
    Arrival arrived(ranks, at::DimVector(sum.sizes()), positions.count(rank, total), sum.options());
    const at::Tensor own = partial(rank);
    arrived.work.wait();
    sent.wait();
    sum = arrived.tensor.add_(own);
  }
  return sum;
}

}  // namespace weft::parallel
