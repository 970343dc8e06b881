// A training on pipeline stages, for tests that record what the host does.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "train/training/recorder.hpp"
#include "training/micro_batches.hpp"

namespace weft::test {

// A training of the toy model in fp64. Ranks that are not on the pipeline axis are data-parallel.
inline std::shared_ptr<Training> make_stages(const World& world, Recorder& recorder, PipelineOptions pipeline,
                                             std::shared_ptr<nn::Model> model = make_toy("", at::kDouble)) {
  recorder.describe_mesh = [&world](weft_mesh* mesh) {
    mesh->size[axis::kData] = static_cast<uint32_t>(world.size()) / mesh->size[axis::kStages];
  };
  TrainingOptions options;
  options.host.pipeline = std::move(pipeline);
  return make_training(world, std::move(model), recorder, options);
}

inline std::vector<Batch> toy_micro_batches(int64_t count) {
  return micro_batches(toy_batch(2 * count + 1, 3), count, {});
}

}  // namespace weft::test
