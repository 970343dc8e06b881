#include "graph.hpp"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

namespace weft::cuda {

namespace {

using Pool = std::shared_ptr<const at::cuda::MempoolId_t>;

class TorchGraph final : public at::cuda::CUDAGraph {
 public:
  bool has_ended() const { return capture_ended_; }
};

class Graph final : public device::Graph {
 public:
  explicit Graph(Pool pool) : pool_(std::move(pool)) {}
  void replay() override { graph.replay(); }
  TorchGraph graph;

 private:
  const Pool pool_;
};

void try_to(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception&) {  // the error that ended the capture is the one to report
  }
}

at::Generator copy_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.clone();
}

class Capturer final : public device::GraphCapturer {
 public:
  std::unique_ptr<device::Graph> capture(const std::function<void()>& give) override {
    // A capture allocates from its own pool. It can neither use nor release the memory that the caching
    // allocator holds for eager steps.
    c10::cuda::CUDACachingAllocator::emptyCache();
    const Pool pool = current_pool();
    const at::Generator before = copy_of(at::cuda::detail::getDefaultCUDAGenerator());
    auto made = std::make_unique<Graph>(pool);
    // Other threads may go on with CUDA meanwhile; those of autograd give their work to the same stream.
    made->graph.capture_begin(*pool, cudaStreamCaptureModeThreadLocal);
    try {
      give();
      made->graph.capture_end();
    } catch (...) {
      abandon(made->graph, *pool, before);
      throw;
    }
    return made;
  }

 private:
  // Returns the pool of the graphs that exist, a new one if there are none: libtorch refuses a pool whose
  // last graph is gone.
  Pool current_pool() {
    Pool pool = pool_.lock();
    if (pool == nullptr)
      pool_ = pool = std::make_shared<const at::cuda::MempoolId_t>(at::cuda::graph_pool_handle());
    return pool;
  }

  // Ends a capture that has failed. If CUDA refuses to end it, libtorch leaves both allocators and the
  // generator as they are during a capture; the generator then goes on as `before`.
  static void abandon(TorchGraph& graph, const at::cuda::MempoolId_t& pool, const at::Generator& before) {
    try_to([&] { graph.capture_end(); });
    if (graph.has_ended()) return;
    const c10::DeviceIndex device = c10::cuda::current_device();
    at::HostAllocator* const host = at::getHostAllocator(at::kCUDA);
    try_to([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool); });
    try_to([&] { c10::cuda::CUDACachingAllocator::releasePool(device, pool); });
    try_to([&] { host->end_allocate_to_pool(pool); });
    try_to([&] { host->release_pool(pool); });
    try_to([&] {
      at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator();
      const std::lock_guard lock(generator.mutex());
      generator.graphsafe_set_state(before);
    });
  }

  std::weak_ptr<const at::cuda::MempoolId_t> pool_;
};

}  // namespace

std::unique_ptr<device::GraphCapturer> make_graph_capturer() {
  return std::make_unique<Capturer>();
}

}  // namespace weft::cuda
