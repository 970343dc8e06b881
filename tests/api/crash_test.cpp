// After a killed save or on a full disk, the previous checkpoint can still be loaded.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "api/job.hpp"
#include "contract/kills.hpp"
#include "files/folder_lock.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/slice.hpp"
#include "support/small_disk.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class Save : public JobTest {
 protected:
  // Returns the step of the training state in `name`; expects that every part of it is of that step.
  int64_t loaded_step(const World& world, const std::string& name = "out") const {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    booster.load_training(job, in(name));
    const int64_t step = job.optimizer.steps();
    Job fresh = make_job(world, options_);
    train(fresh, step);
    for (const auto& item : job.model.module().named_parameters(true))
      EXPECT_TRUE(at::equal(item.value(), fresh.model.module().named_parameters(true)[item.key()]))
          << item.key();
    EXPECT_EQ(job.data.position().batch, step);
    EXPECT_EQ(job.schedule.last_step(), step);
    return step;
  }
  std::vector<std::string> names_in(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(in(name))) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::vector<std::string> others() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (entry.path().filename().string().starts_with(".")) names.push_back(entry.path().filename());
    return names;
  }
};

TEST_F(Save, KilledAtAnySystemCallLeavesOneWholeCheckpoint) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    train(job, 1);
    booster.save_training(job, in("first"));
    train(job, 1);
    const auto save = [&] { booster.save_training(job, in("out")); };
    const auto begin_anew = [&] {
      fs::remove_all(in("out"));
      fs::copy(in("first"), in("out"), fs::copy_options::recursive);
    };
    begin_anew();
    const auto calls = contract::count_system_calls([] {}, save);
    if (!calls) GTEST_SKIP() << "ptrace is not allowed here";
    int num_old = 0, num_new = 0;
    for (const size_t number : draw_slice_with_ends("Save.KilledAtAnySystemCall", *calls, 60)) {
      begin_anew();
      contract::kill_at_system_call(
          number, [] {}, save);  // it can end before: less was there to clear away
      const int64_t step = loaded_step(world);
      ASSERT_FALSE(testing::Test::HasFailure()) << "killed at call " << number;
      ++(step == 1 ? num_old : num_new);
    }
    EXPECT_GT(num_old, 10);
    EXPECT_GT(num_new, 0);
    save();
    EXPECT_EQ(loaded_step(world), 2);
    EXPECT_EQ(others(), std::vector<std::string>()) << "a save removes what killed ones left";
  });
}

// A training with --save-every that was killed while it wrote step-3/, and one that had stepped aside for it.
TEST_F(Save, WhatKilledSavesLeftInsideDoesNotTravelOn) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    booster.save_model(job.model, in("out"));
    for (const char* name :
         {"out/.step-3.saving-0badf00d", "out/step-1", "out/.step-2.saving-01234567.old"}) {
      fs::create_directories(in(name));
      std::ofstream(in(name) + "/note") << name;
    }
    std::ofstream(in("out/.step-3.saving.lock")) << "";
    booster.save_model(job.model, in("out"));
    EXPECT_EQ(names_in("out"),
              (std::vector<std::string>{"config.json", "model.safetensors", "step-1", "step-2"}));
    EXPECT_EQ(read_bytes(in("out/step-2/note")), "out/.step-2.saving-01234567.old");
    EXPECT_EQ(others(), std::vector<std::string>());
  });
}

TEST_F(Save, ASaveSparesThePlaceOfASaveThatIsUnderWayInside) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    booster.save_model(job.model, in("out"));
    const std::string staging = in("out/.step-3.saving-0badf00d");
    fs::create_directory(staging);
    const checkpoint::FolderLock other(fs::canonical(in("out")) / "step-3");
    {
      const checkpoint::FolderLock::Save save = other.begin_save();
      EXPECT_ERROR(booster.save_model(job.model, in("out")), WEFT_FAILED_PRECONDITION, "out/step-3");
      EXPECT_TRUE(fs::exists(staging));
    }
    booster.save_model(job.model, in("out"));
    EXPECT_FALSE(fs::exists(staging));
  });
}

// A disk on which one training fits, and of a second one more or less.
TEST_F(Save, WithoutRoomOnTheDiskFailsOnEveryRankAndLeavesTheLastOne) {
  fs::create_directory(in("disk"));
  for (const size_t kilobytes : {160, 180, 200, 240}) {
    const auto passed = passes_on_small_disk(in("disk"), kilobytes << 10, [&] {
      on_ranks({1, 2}, [&](World& world) {
        Booster booster({}, world);
        Job job = make_job(world, options_);
        train(job, 1);
        if (world.is_master()) fs::remove_all(in("disk/out"));
        world.block_all();
        booster.save_training(job, in("disk/out"));
        train(job, 1);
        EXPECT_ERROR(booster.save_training(job, in("disk/out")), WEFT_RESOURCE_EXHAUSTED, "No space left");
        EXPECT_EQ(loaded_step(world, "disk/out"), 1);
        world.block_all();
        if (world.is_master())
          for (const auto& entry : fs::directory_iterator(in("disk")))
            EXPECT_EQ(entry.path().filename(), "out");
      });
    });
    if (!passed) GTEST_SKIP() << "a small disk cannot be mounted here";
    EXPECT_TRUE(*passed) << kilobytes << " kB";
  }
}

TEST_F(Save, OnAFullDiskFailsOnEveryRankAndLeavesTheLastOne) {
  on_ranks({1, 2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    train(job, 1);
    booster.save_training(job, in("out"));
    train(job, 1);
    rlimit before = {};
    getrlimit(RLIMIT_FSIZE, &before);
    for (const rlim_t limit : {0, 300, 5000, 30000}) {  // config.json, random, model, optimizer
      const rlimit small = {limit, before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &small);
      try {
        booster.save_training(job, in("out"));
        ADD_FAILURE() << "saved in files of " << limit << " bytes";
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), WEFT_RESOURCE_EXHAUSTED) << error.what();
        EXPECT_NE(std::string(error.what()).find(".out.saving-"), std::string::npos) << error.what();
      }
      setrlimit(RLIMIT_FSIZE, &before);
      EXPECT_EQ(loaded_step(world), 1);
      EXPECT_EQ(others(), std::vector<std::string>());
      world.block_all();
    }
    booster.save_training(job, in("out"));
    EXPECT_EQ(loaded_step(world), 2);
  });
}

// The kernel kills the rank when a file exceeds the limit: in the middle of its part file.
TEST_F(Save, ARankKilledInTheMiddleLeavesTheLastOne) {
  on_ranks({2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    train(job, 1);
    booster.save_training(job, in("out"));
  });
  for (const int killed : {0, 1}) {
    const auto outcomes = run_ranks(2, [&](int rank) {
      World world = launch();
      Booster booster({}, world);
      Job job = make_job(world, options_);
      train(job, 2);
      if (rank == killed) {
        signal(SIGXFSZ, [](int) { raise(SIGKILL); });
        const rlimit small = {20000, RLIM_INFINITY};
        setrlimit(RLIMIT_FSIZE, &small);
      }
      booster.save_training(job, in("out"));
    });
    EXPECT_NE(outcomes[killed].how.find("signal 9"), std::string::npos) << outcomes[killed].how;
    EXPECT_FALSE(outcomes[1 - killed].passed);
    on_ranks({1, 2}, [&](World& world) { EXPECT_EQ(loaded_step(world), 1); });
  }
  on_ranks({2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    train(job, 2);
    booster.save_training(job, in("out"));
    EXPECT_EQ(loaded_step(world), 2);
    if (world.is_master()) EXPECT_EQ(others(), std::vector<std::string>());
  });
}

}  // namespace
}  // namespace weft::test
