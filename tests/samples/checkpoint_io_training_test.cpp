// Trainings that are saved and resumed in the checkpoint formats of the samples.
#include <ATen/ops/equal.h>

#include <filesystem>

#include "api/job.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class TrainingInFormat : public JobTest, public testing::WithParamInterface<const char*> {
 protected:
  TrainingInFormat() { options_.checkpoint_io = GetParam(); }

  Booster booster(const World& world, const std::string& format) const {
    BoosterOptions options;
    options.strategy = options_.strategy;
    options.checkpoint_io = format;
    return Booster(options, world);
  }
  // Whether the folder has weights of Hugging Face, and of the format.
  bool has_safetensors() const { return fs::exists(in("out/model.safetensors")); }
  bool has_ours() const {
    return fs::exists(in(options_.checkpoint_io == "packed" ? "out/packed.weights" : "out/raw_files.txt"));
  }
};

void expect_equal_parameters(const Job& one, const Job& other) {
  const auto parameters = other.model.module().named_parameters(true);
  for (const auto& item : one.model.module().named_parameters(true))
    EXPECT_TRUE(at::equal(item.value(), parameters[item.key()])) << item.key();
}

TEST_P(TrainingInFormat, GoesOnAsIfItHadNotBeenInterrupted) {
  on_ranks({1, 2}, [&](World& world) {
    Job whole = make_job(world, options_);
    const std::vector<double> losses = train(whole, 4);

    Job first = make_job(world, options_);
    train(first, 2);
    Booster saving = booster(world, GetParam());
    saving.save_training(first, in("out"));
    EXPECT_TRUE(has_ours());
    EXPECT_FALSE(has_safetensors());
    Job second = make_job(world, options_);
    saving.load_training(second, in("out"));
    EXPECT_EQ(train(second, 2), std::vector<double>(losses.begin() + 2, losses.end()));
    expect_equal_parameters(second, whole);

    JobOptions from_folder = options_;
    from_folder.model = in("out");
    from_folder.checkpoint_io = "";
    expect_equal_parameters(make_job(world, from_folder), first);
    world.block_all();
  });
}

TEST_P(TrainingInFormat, ReplacesTheWeightsOfAnotherFormat) {
  on_ranks({2}, [&](World& world) {
    Job job = make_job(world, options_);
    train(job, 1);
    for (const char* format : {"", GetParam(), "safetensors", GetParam()}) {
      SCOPED_TRACE(format);
      Booster saving = booster(world, format);
      saving.save_training(job, in("out"), {.background = true});
      saving.finish_saving();
      const bool is_ours = std::string(format) == GetParam();
      EXPECT_EQ(has_ours(), is_ours);
      EXPECT_EQ(has_safetensors(), !is_ours);
      Job resumed = make_job(world, options_);
      saving.load_training(resumed, in("out"));
      expect_equal_parameters(resumed, job);
      world.block_all();
    }
  });
}

TEST_P(TrainingInFormat, KeepsModelsAndOptimizersByThemselves) {
  on_ranks({2}, [&](World& world) {
    Job job = make_job(world, options_);
    train(job, 2);
    Booster saving = booster(world, GetParam());
    saving.save_model(job.model, in("model"));
    saving.save_optimizer(job.optimizer, in("optimizer"));
    Job other = make_job(world, options_);
    saving.load_model(other.model, in("model"));
    saving.load_optimizer(other.optimizer, in("optimizer"));
    expect_equal_parameters(other, job);
    EXPECT_EQ(other.optimizer.steps(), 2);
  });
}

TEST_P(TrainingInFormat, RefusesWhatTheFormatDoesNotHave) {
  on_ranks({2}, [&](World& world) {
    Job job = make_job(world, options_);
    Booster saving = booster(world, GetParam());
    EXPECT_ERROR(saving.save_training(job, in("out"), {.prefix = "ema"}), WEFT_INVALID_ARGUMENT, "ema",
                 GetParam());
    EXPECT_ERROR(saving.save_model(job.model, in("out"), {.shard = true}), WEFT_INVALID_ARGUMENT, "shard");
    EXPECT_ERROR(saving.save_model(job.model, in("a.safetensors")), WEFT_INVALID_ARGUMENT, GetParam(),
                 "folder");
    EXPECT_ERROR(booster(world, "nobodys").save_model(job.model, in("out")), WEFT_NOT_FOUND, "nobodys",
                 GetParam());
    EXPECT_ERROR(booster(world, "raw_files@9.9.9").save_model(job.model, in("out")), WEFT_NOT_FOUND, "9.9.9",
                 WEFT_TEST_VERSION);
    EXPECT_ERROR(booster(world, "raw_files@").save_model(job.model, in("out")), WEFT_INVALID_ARGUMENT,
                 "raw_files@");
    EXPECT_FALSE(fs::exists(in("out")));
  });
}

TEST_F(JobTest, ABoostWithAnUnknownCheckpointFormatIsRefused) {
  on_ranks({2}, [&](World& world) {
    options_.checkpoint_io = "raw_file";
    EXPECT_ERROR(make_job(world, options_), WEFT_NOT_FOUND, "raw_file", "raw_files");
  });
}

INSTANTIATE_TEST_SUITE_P(, TrainingInFormat, testing::Values("raw_files", "packed"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft::test
