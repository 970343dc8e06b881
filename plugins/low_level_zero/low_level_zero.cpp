// low_level_zero: ZeRO stages 1 and 2. Every rank holds all parameters. The gradients of a bucket are
// reduce-scattered to the ranks that own its parts while backward runs, and the updated parts are
// all-gathered after a step.
#include <string>

#include "weft/kit/zero_redundancy.hpp"

using namespace weft::plugin;

namespace {

class LowLevelZero final : public kit::DataParallelStrategy<LowLevelZero> {
 public:
  static std::unique_ptr<kit::DataAxis> data_axis(const Options& options) {
    return kit::ZeroRedundancy::from_options(options, "stage", "reduce_bucket_size_in_m");
  }

  // Neighbouring ranks form a group; replicas are in different groups.
  void describe_mesh(const Mesh& mesh) override {
    kit::ZeroRedundancy::check_mesh(mesh, options, "low_level_zero", "stage");
    const int64_t groups = options.get<int64_t>("extra_dp_size");
    const uint32_t ranks = mesh.ranks_left();
    if (ranks % groups != 0)
      throw weft::Error(WEFT_INVALID_ARGUMENT, "low_level_zero: extra_dp_size is " + std::to_string(groups) +
                                                   ", must divide the " + std::to_string(ranks) +
                                                   " data-parallel ranks");
    mesh.set_size("replica", static_cast<uint32_t>(groups));
    mesh.set_size("data", static_cast<uint32_t>(ranks / groups));
  }

  void configure(Training& made) override {
    DataParallelStrategy::configure(made);
    if (!options.get<bool>("verbose")) return;
    const std::string layout = static_cast<const kit::ZeroRedundancy&>(axis()).layout();
    host.host->log(WEFT_LOG_INFO, str("low_level_zero"), str(layout));
  }
};

}  // namespace

WEFT_STRATEGY(LowLevelZero, "low_level_zero")
