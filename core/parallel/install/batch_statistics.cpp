#include "install/batch_statistics.hpp"

#include "streams/region.hpp"
#include "weft/nn/batch_norm.hpp"

namespace weft::parallel {

namespace {

// Each rank's loss depends on the sum, so the gradients are summed, too.
class OverRanks final : public nn::StatisticsOperation {
 public:
  explicit OverRanks(Communicator ranks) : ranks_(std::move(ranks)) {}
  at::Tensor sum(const at::Tensor& own) const override { return enter(leave(own.clone(), ranks_), ranks_); }

 private:
  const Communicator ranks_;
};

}  // namespace

void synchronise_statistics(const nn::Model& model, const Communicator& samples) {
  std::shared_ptr<OverRanks> shared;
  for (const std::shared_ptr<torch::nn::Module>& module : model.modules(/*include_self=*/false)) {
    auto* const norm = dynamic_cast<nn::BatchNorm*>(module.get());
    if (norm == nullptr) continue;
    norm->operation = nullptr;
    if (!norm->options.synchronised || samples.size() == 1) continue;
    if (shared == nullptr) shared = std::make_shared<OverRanks>(samples);
    norm->operation = shared;
  }
}

}  // namespace weft::parallel
