// Which checkpoints of a training stay.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "api/trainer.hpp"
#include "contract/kills.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/slice.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

// Trains in `folder` with `losses` after each step.
void train_with_checkpoints(const World& world, Job job, CheckpointOptions options,
                            const std::map<int64_t, double>& losses, EvaluationSet set) {
  const auto steps = static_cast<int64_t>(losses.rbegin()->first);
  Trainer(
      Booster({}, world), std::move(job),
      {.steps = steps,
       .evaluate_every = 1,
       .evaluation = {std::move(set)},
       .hooks = {std::make_shared<Values>(losses), std::make_shared<Checkpoints>(std::move(options), world)}})
      .fit();
}

int64_t saved_step(const std::string& folder) {
  return nlohmann::json::parse(read_bytes(folder + "/training_state/state.json")).at("step");
}

TEST_F(TrainerTest, KeepsTheLastAndTheBestOfItsOwnCheckpoints) {
  const std::map<int64_t, double> losses = {{1, 5}, {2, 3}, {3, 4}, {4, 4}, {5, 3}, {6, 4}, {7, 6}};
  for (const bool background : {false, true}) {
    on_ranks({1, 2}, [&](World& world) {
      const std::string out = in(fmt::format("{}{}", world.size(), background));
      if (world.is_master()) {
        fs::create_directories(out + "/step-1");
        std::ofstream(out + "/step-1/note") << "a person's";
        fs::create_directories(out + "/step-100");
      }
      world.block_all();
      train_with_checkpoints(
          world, make_job(world, options_),
          {.folder = out, .save_every = 2, .background = background, .keep_last = 1, .keep_best = "loss"},
          losses, set(world, "books", 3));
      world.block_all();
      const std::string name = fs::path(out).filename();
      EXPECT_THAT(steps_in(name), ElementsAre("step-100", "step-2", "step-6"));
      EXPECT_EQ(fs::read_symlink(out + "/best"), "step-2");
      EXPECT_EQ(saved_step(out + "/best"), 2);
      EXPECT_EQ(saved_step(out + "/step-6"), 6);
      EXPECT_EQ(saved_step(out), 7);
    });
  }
}

TEST_F(TrainerTest, TheLastStepGetsAFolderIfItIsTheBest) {
  on_ranks({1}, [&](World& world) {
    train_with_checkpoints(world, make_job(world, options_), {.folder = in("out"), .keep_best = "loss"},
                           {{1, 5}, {2, 6}, {3, 4}}, set(world, "books", 3));
    EXPECT_THAT(steps_in("out"), ElementsAre("step-1", "step-3"));
    EXPECT_EQ(fs::read_symlink(in("out/best")), "step-3");
    EXPECT_EQ(saved_step(in("out")), 3);
  });
}

TEST_F(TrainerTest, EndsWithTheBestStepIfItIsAskedTo) {
  on_ranks({1, 2}, [&](World& world) {
    const std::string out = in("best" + std::to_string(world.size()));
    train_with_checkpoints(world, make_job(world, options_),
                           {.folder = out, .keep_best = "loss", .end_with_best = true},
                           {{1, 5}, {2, 3}, {3, 4}}, set(world, "books", 3));
    world.block_all();
    EXPECT_EQ(saved_step(out), 2);
    EXPECT_EQ(saved_step(out + "/step-3"), 3);
    EXPECT_EQ(read_bytes(out + "/model.safetensors"), read_bytes(out + "/best/model.safetensors"));
    EXPECT_TRUE(fs::exists(out + "/config.json"));
  });
}

TEST_F(TrainerTest, AnotherTrainingLeavesTheCheckpointsOfTheFirstAlone) {
  on_ranks({1}, [&](World& world) {
    train_with_checkpoints(world, make_job(world, options_), {.folder = in("out"), .save_every = 1},
                           {{1, 5}, {2, 6}, {3, 4}}, set(world, "books", 3));
    EXPECT_THAT(steps_in("out"), ElementsAre("step-1", "step-2"));
    train_with_checkpoints(world, make_job(world, options_),
                           {.folder = in("out"), .save_every = 2, .keep_last = 1},
                           {{1, 5}, {2, 6}, {3, 4}, {4, 4}, {5, 4}, {6, 4}, {7, 4}}, set(world, "books", 3));
    EXPECT_THAT(steps_in("out"), ElementsAre("step-1", "step-6")) << "2 and 4 were this training's own";
  });
}

TEST_F(TrainerTest, SomethingElseThatIsCalledBestIsAnError) {
  on_ranks({1, 2}, [&](World& world) {
    if (world.is_master()) fs::create_directories(in("out/best"));
    world.block_all();
    const CheckpointOptions options{.folder = in("out"), .keep_best = "loss"};
    EXPECT_ERROR(Checkpoints(options, world), WEFT_ALREADY_EXISTS, "out/best");
  });
}

// Whenever a training is killed while its checkpoints change, the last and the best one are there, whole.
TEST_F(TrainerTest, KilledAtAnySystemCallItKeepsTheLastAndTheBestCheckpoint) {
  on_ranks({1}, [&](World& world) {
    const std::map<int64_t, double> losses = {{1, 5}, {2, 4}, {3, 6}, {4, 3}};
    const CheckpointOptions options{
        .folder = in("out"), .save_every = 1, .keep_last = 1, .keep_best = "loss"};
    const auto run = [&] {
      train_with_checkpoints(world, make_job(world, options_), options, losses, set(world, "books", 3));
    };
    run();
    const auto calls = contract::count_system_calls([&] { fs::remove_all(in("out")); }, run);
    if (!calls) GTEST_SKIP() << "ptrace is not allowed here";
    std::set<int64_t> last_steps;
    for (const size_t number : draw_slice_with_ends("TrainerTest.KilledAtAnySystemCall", *calls, 16)) {
      contract::kill_at_system_call(
          number, [&] { fs::remove_all(in("out")); }, run);
      if (!fs::exists(in("out"))) continue;
      int64_t last = 0;
      for (const std::string& name : steps_in("out")) {
        const int64_t step = saved_step(in("out/" + name));
        EXPECT_EQ("step-" + std::to_string(step), name);
        last = std::max(last, step);
      }
      for (const std::string& name : steps_in("out")) {
        Booster booster({}, world);
        Job job = make_job(world, options_);
        booster.load_training(job, in("out/" + name));
      }
      last_steps.insert(last);
      const fs::path best = in("out/best");
      if (fs::is_symlink(best)) EXPECT_TRUE(fs::exists(best)) << "killed at call " << number;
      // The best of all steps that are complete is there.
      const std::map<int64_t, int64_t> best_of = {{1, 1}, {2, 2}, {3, 2}, {4, 4}};
      if (last > 0) {
        const std::string wanted = "step-" + std::to_string(best_of.at(last));
        EXPECT_THAT(steps_in("out"), testing::Contains(wanted)) << "killed at call " << number;
      }
    }
    EXPECT_GE(last_steps.size(), 3u);
  });
}

}  // namespace
}  // namespace weft::test
