// torch_ddp: data parallelism as in PyTorch's DistributedDataParallel. Every rank holds the whole model, and
// gradients are all-reduced in buckets while backward runs.
#include "weft/kit/whole_gradients.hpp"

using namespace weft::plugin;

namespace {

class DistributedDataParallel final : public kit::DataParallelStrategy<DistributedDataParallel> {
 public:
  static std::unique_ptr<kit::DataAxis> data_axis(const Options& options) {
    return kit::WholeGradients::from_options(options, "bucket_cap_mb");
  }
};

}  // namespace

WEFT_STRATEGY(DistributedDataParallel, "torch_ddp")
