// What the Booster reads into a job must be the same on every rank.
#include "api/job.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {
namespace {

class UnlikeFiles : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  const TemporaryFolder folder_;
  JobOptions options_ = [this] {
    JobOptions options;
    options.model = folder_.file("config.json", config_json());
    options.data = folder_.file("data.txt", sample_text(17 * 32));
    return options;
  }();
};

TEST_F(UnlikeFiles, AreRefusedForAnOptimizer) {
  on_ranks({2}, [&](World& world) {
    Booster booster({}, world);
    const std::string own = std::to_string(world.rank());
    Job job = make_job(world, options_);
    train(job, 1);
    booster.save_optimizer(job.optimizer, in("0.safetensors"));
    train(job, 1);
    booster.save_optimizer(job.optimizer, in("1.safetensors"));
    booster.save_optimizer(job.optimizer, in("groups0.safetensors"));
    job.optimizer.groups()[0].options["weight_decay"] = 0.5;
    booster.save_optimizer(job.optimizer, in("groups1.safetensors"));

    EXPECT_ERROR(booster.load_optimizer(job.optimizer, in(own + ".safetensors")), WEFT_FAILED_PRECONDITION,
                 "optimizer state: rank 0 has ", "(in " + in("0.safetensors") + "), rank 1 has ",
                 "(in " + in("1.safetensors") + ")");
    // The same tensors, but options that differ.
    EXPECT_ERROR(booster.load_optimizer(job.optimizer, in("groups" + own + ".safetensors")),
                 WEFT_FAILED_PRECONDITION, "optimizer state", "rank 0 has ",
                 "(in " + in("groups0.safetensors") + "), rank 1 has ");
    EXPECT_EQ(job.optimizer.steps(), 2);
    EXPECT_EQ(job.optimizer.groups()[0].options["weight_decay"], 0.5);
    booster.load_optimizer(job.optimizer, in("0.safetensors"));
    EXPECT_EQ(job.optimizer.steps(), 1);
  });
}

TEST_F(UnlikeFiles, AreRefusedForASchedule) {
  on_ranks({2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    for (const int64_t step : {3, 4}) {
      job.schedule.seek(step);
      booster.save_lr_scheduler(job.schedule, in(std::to_string(step)));
    }
    job.schedule.seek(5);
    const std::string own = in(std::to_string(3 + world.rank()));
    EXPECT_ERROR(booster.load_lr_scheduler(job.schedule, own), WEFT_FAILED_PRECONDITION,
                 "schedule last_step: rank 0 has 3 (in " + in("3") + "), rank 1 has 4 (in " + in("4") + ")");
    EXPECT_EQ(job.schedule.last_step(), 5);
    booster.load_lr_scheduler(job.schedule, in("4"));
    EXPECT_EQ(job.schedule.last_step(), 4);
  });
}

TEST_F(UnlikeFiles, AreRefusedForAModel) {
  on_ranks({2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    for (const char* name : {"model0", "model1"}) {
      booster.save_model(job.model, in(name));
      train(job, 2);  // the first step of the warm-up changes nothing
    }
    EXPECT_ERROR(booster.load_model(job.model, in("model" + std::to_string(world.rank()))),
                 WEFT_FAILED_PRECONDITION, "weights: rank 0 has ", "(in " + in("model0") + "), rank 1 has ");
    booster.load_model(job.model, in("model0"));
  });
}

}  // namespace
}  // namespace weft::test
