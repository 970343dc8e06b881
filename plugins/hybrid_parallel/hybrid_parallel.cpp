// hybrid_parallel: tensor parallelism times data parallelism. The host performs tensor parallelism by the
// model's plan. This strategy selects the kind of data parallelism: replicated gradients (zero_stage 0) or
// ZeRO (1 and 2).
#include <string>

#include "weft/kit/whole_gradients.hpp"
#include "weft/kit/zero_redundancy.hpp"

namespace {

class HybridParallel final : public weft::kit::DataParallelStrategy<HybridParallel> {
 public:
  static std::unique_ptr<weft::kit::DataAxis> data_axis(const weft::Options& options) {
    if (options.get<int64_t>("zero_stage") == 0)
      return weft::kit::WholeGradients::from_options(options, "ddp_bucket_cap_mb");
    return weft::kit::ZeroRedundancy::from_options(options, "zero_stage", "zero_bucket_size_in_m");
  }

  void describe_mesh(weft_mesh& mesh) override {
    refuse_pipelines();
    DataParallelStrategy::describe_mesh(mesh);
  }

 private:
  void refuse_pipelines() const {
    if (options.get<int64_t>("pp_size") != 1)
      refuse("pp_size is " + std::to_string(options.get<int64_t>("pp_size")) +
             ": this version has no pipelines; leave it 1");
    if (!options.get<bool>("dp_outside"))
      refuse(
          "dp_outside is false: that puts the data axis inside the pipeline's, and this version has no "
          "pipelines; leave it true (data-parallel ranks lie furthest apart, tensor-parallel ones side by "
          "side)");
  }

  [[noreturn]] static void refuse(const std::string& what) {
    throw weft::Error(WEFT_UNIMPLEMENTED, "hybrid_parallel: " + what);
  }
};

}  // namespace

WEFT_STRATEGY(HybridParallel, "hybrid_parallel")
