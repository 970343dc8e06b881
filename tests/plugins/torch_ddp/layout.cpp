// On the SDK alone.
#include "plugins/torch_ddp/layout.hpp"

#include <ATen/ATen.h>
#include <weft/runtime.h>

#include <weft/kit/gradient_buckets.hpp>
#include <weft/torch/strategy.hpp>

namespace weft {

const void* training_services(weft_str id);  // the engine's

namespace test {

using namespace plugin;

namespace {

int64_t capacity = 0;
std::vector<std::vector<std::string>>* result = nullptr;

class LayoutStrategy final : public plugin::Strategy {
 public:
  void configure(plugin::Training& made) override {
    parameters_ = made.parameters();
    for (const Parameter& parameter : parameters_) {
      const at::Tensor storage = at::empty({parameter.info().count});
      parameter.read(0, storage);
      parameter.bind(storage);
    }
    kit::GradientBucketOptions options;
    options.capacity_bytes = capacity;
    buckets_.build(made, parameters_, options);
    *result = buckets_.layout();
  }
  void publish(ShardSink& sink) const override {
    for (const Parameter& parameter : parameters_)
      sink.shard(parameter, 0, parameter.tensor().detach().view(-1), at::Tensor(), 0);
  }
  void zero_gradients() override {}

 private:
  std::vector<Parameter> parameters_;
  kit::GradientBuckets buckets_;
};

}  // namespace

const weft_strategy_api* bucket_layout_strategy(int64_t capacity_bytes,
                                                std::vector<std::vector<std::string>>* layout) {
  static const weft_host table = {
      sizeof(weft_host),
      [](weft_error* error, weft_status status, weft_str text) { weft_error_set(error, status, text); },
      [](uint32_t, weft_str, weft_str) {}, &training_services};
  capacity = capacity_bytes;
  result = layout;
  return fetch_tables(&table) ? StrategyTable<LayoutStrategy>::api() : nullptr;
}

}  // namespace test
}  // namespace weft
