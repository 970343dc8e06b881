// A job in a folder of its own, which the tests of checkpoints save, change and load.
#pragma once

#include <gtest/gtest.h>

#include "api/job.hpp"
#include "support/launch_ranks.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {

class CheckpointTest : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  // Returns a job whose initial values depend on the seed.
  Job make(const World& world, int64_t seed, const std::string& architecture = "",
           const std::string& model = "") const {
    JobOptions options = options_;
    options.seed = seed;
    options.architecture = architecture;
    if (!model.empty()) options.model = model;
    return make_job(world, options);
  }
  static Batch batch() {
    Batch batch;
    batch.set("input_ids", at::arange(64).view({2, 32}));
    batch.set("labels", at::arange(64).view({2, 32}));
    return batch;
  }
  static at::Tensor parameter(const Job& job, const std::string& name) {
    return job.model.module().named_parameters(true)[name].detach();
  }
  static void expect_same_model(const Job& one, const Job& other) {
    for (const auto& item : one.model.module().named_parameters(true))
      EXPECT_TRUE(at::equal(item.value(), other.model.module().named_parameters(true)[item.key()]))
          << item.key();
  }
  // Saves a model and applies `change` to its file.
  template <class Change>
  void save_changed(const Change& change) const {
    on_ranks({1}, [&](World& world) {
      Booster booster({}, world);
      Job job = make(world, 1);
      booster.save_model(job.model, in("out"));
    });
    RawTensors tensors = read_safetensors(in("out/model.safetensors"));
    change(tensors);
    folder_.file("out/model.safetensors", safetensors_bytes(tensors));
  }

  TemporaryFolder folder_;
  JobOptions options_ = [this] {
    JobOptions options;
    options.model = folder_.file("config.json", config_json());
    return options;
  }();
};

}  // namespace weft::test
