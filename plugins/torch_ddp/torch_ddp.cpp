// torch_ddp: data parallelism as in PyTorch's DistributedDataParallel. Every rank holds the whole model, and
// gradients are all-reduced in buckets while backward runs.
#include "weft/kit/whole_gradients.hpp"

namespace {

class DistributedDataParallel final : public weft::kit::DataParallelStrategy<DistributedDataParallel> {
 public:
  static std::unique_ptr<weft::kit::DataAxis> data_axis(const weft::Options& options) {
    return weft::kit::WholeGradients::from_options(options, "bucket_cap_mb");
  }
};

}  // namespace

WEFT_STRATEGY(DistributedDataParallel, "torch_ddp")
