#include "graph.hpp"

#include <ATen/cuda/CUDAGraph.h>

namespace weft::cuda {

namespace {

class Graph final : public device::Graph {
 public:
  void replay() override { graph.replay(); }
  at::cuda::CUDAGraph graph;
};

class Capturer final : public device::GraphCapturer {
 public:
  std::unique_ptr<device::Graph> capture(const std::function<void()>& give) override {
    auto made = std::make_unique<Graph>();
    // Other threads may go on with CUDA meanwhile; those of autograd give their work to the same stream.
    made->graph.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    try {
      give();
    } catch (...) {
      end_quietly(made->graph);
      throw;
    }
    made->graph.capture_end();
    return made;
  }

 private:
  // Ends a capture that has failed, which CUDA says once more.
  static void end_quietly(at::cuda::CUDAGraph& graph) {
    try {
      graph.capture_end();
    } catch (const std::exception&) {
    }
  }

  const at::cuda::MempoolId_t pool_ = at::cuda::graph_pool_handle();
};

}  // namespace

std::unique_ptr<device::GraphCapturer> make_graph_capturer() {
  return std::make_unique<Capturer>();
}

}  // namespace weft::cuda
