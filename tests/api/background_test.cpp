// Saves in the background while training continues.
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "api/job.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class BackgroundSave : public JobTest {
 protected:
  // Returns the contents of the folder.
  void gather(const World& world, const Job& job, const std::string& name) const {
    Booster booster({}, world);
    booster.save_model(job.model, in(name + ".model"));
    booster.save_optimizer(job.optimizer, in(name + ".safetensors"));
  }
  void expect_same(const std::string& one, const std::string& other) const {
    for (const char* file : {".model/model.safetensors", ".safetensors"})
      EXPECT_TRUE(read_bytes(in(one) + file) == read_bytes(in(other) + file)) << file;
  }
};

TEST_F(BackgroundSave, HoldsTheMomentAtWhichItWasAskedFor) {
  for (const char* strategy : {"torch_ddp", "slices"}) {
    options_.strategy = strategy;
    on_ranks({2}, [&](World& world) {
      Booster booster({}, world);
      Job job = make_job(world, options_);
      train(job, 2);
      gather(world, job, "then");
      booster.save_training(job, in("out"), {.background = true});
      booster.save_training(job, in("again"), {.background = true});  // waits for the first
      booster.save_model(job.model, in("model"), {.background = true});
      train(job, 3);
      booster.finish_saving();
      for (const char* name : {"out", "again"}) {
        Job loaded = make_job(world, options_);
        booster.load_training(loaded, in(name));
        EXPECT_EQ(loaded.optimizer.steps(), 2);
        EXPECT_EQ(loaded.data.position().batch, 2);
        gather(world, loaded, "loaded");
        if (world.is_master()) expect_same("then", "loaded");
      }
      if (world.is_master())
        EXPECT_TRUE(read_bytes(in("model/model.safetensors")) ==
                    read_bytes(in("then.model/model.safetensors")));
      world.block_all();
    });
  }
}

TEST_F(BackgroundSave, IsWaitedForByALoadAndByTheEndOfTheBooster) {
  on_ranks({2}, [&](World& world) {
    Job job = make_job(world, options_);
    train(job, 1);
    Booster booster({}, world);
    booster.save_training(job, in("out"), {.background = true});
    booster.load_training(job, in("out"));
    {
      Booster other({}, world);
      other.save_training(job, in("last"), {.background = true});
    }
    EXPECT_TRUE(fs::exists(in("last/training_state/state.json")));
  });
}

// Nobody waits for it but the destructor of the booster.
TEST_F(BackgroundSave, EndsTheProcessWithStatusOneIfItFailsLast) {
  const auto save_last = [&](bool waits) {
    const World world = launch(0, 1, "localhost", 1);
    options_.strategy = "none";
    Job job = make_job(world, options_);
    {
      Booster booster({.strategy = "none"}, world);
      booster.save_model(job.model, in("config.json/out.safetensors"), {.background = true});
      if (waits) EXPECT_ERROR(booster.finish_saving(), WEFT_UNAVAILABLE, "config.json");
    }
    std::exit(0);
  };
  EXPECT_EXIT(save_last(false), testing::ExitedWithCode(1), "background failed.*config.json");
  EXPECT_EXIT(save_last(true), testing::ExitedWithCode(0), "");
}

TEST_F(BackgroundSave, FailsInTheNextCallOnEveryRank) {
  on_ranks({2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    train(job, 1);
    booster.save_training(job, in("out"));
    train(job, 1);
    rlimit before = {};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small = {5000, before.rlim_max};
    for (const bool next : {false, true}) {
      setrlimit(RLIMIT_FSIZE, &small);
      booster.save_training(job, in("out"), {.background = true});
      if (next)
        EXPECT_ERROR(booster.save_model(job.model, in("model")), WEFT_RESOURCE_EXHAUSTED, ".out.saving-");
      else
        EXPECT_ERROR(booster.finish_saving(), WEFT_RESOURCE_EXHAUSTED, ".out.saving-");
      setrlimit(RLIMIT_FSIZE, &before);
    }
    Job loaded = make_job(world, options_);
    booster.load_training(loaded, in("out"));
    EXPECT_EQ(loaded.optimizer.steps(), 1);
  });
}

}  // namespace
}  // namespace weft::test
