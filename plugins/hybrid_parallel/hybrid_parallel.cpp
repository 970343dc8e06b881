// hybrid_parallel: tensor parallelism times pipeline stages times data parallelism. The host performs tensor
// parallelism by the model's plan, and runs the stages. This strategy selects the kind of data parallelism:
// replicated gradients (zero_stage 0) or ZeRO (1 and 2).
#include <string>

#include "weft/kit/whole_gradients.hpp"
#include "weft/kit/zero_redundancy.hpp"

using namespace weft::plugin;

namespace {

class HybridParallel final : public kit::DataParallelStrategy<HybridParallel> {
 public:
  static std::unique_ptr<kit::DataAxis> data_axis(const Options& options) {
    if (options.get<int64_t>("zero_stage") == 0)
      return kit::WholeGradients::from_options(options, "ddp_bucket_cap_mb");
    return kit::ZeroRedundancy::from_options(options, "zero_stage", "zero_bucket_size_in_m");
  }

  void describe_mesh(const Mesh& mesh) override {
    kit::ZeroRedundancy::check_mesh(mesh, options, "hybrid_parallel", "zero_stage");
    DataParallelStrategy::describe_mesh(mesh);
  }
};

}  // namespace

WEFT_STRATEGY(HybridParallel, "hybrid_parallel")
