// Hooks in C: when they are called, what they see, what they may ask for, and libraries of them.
#include <gmock/gmock.h>

#include <filesystem>

#include "api/c_hook.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class HookInCTest : public TrainerTest {
 protected:
  // Trains with this hook for at most 4 steps. Returns after how many it ended.
  int64_t train_with(const World& world, const NotesInC& notes,
                     const std::vector<std::shared_ptr<Hook>>& others = {}) {
    std::vector<std::shared_ptr<Hook>> hooks = {notes.as_hook()};
    hooks.insert(hooks.end(), others.begin(), others.end());
    Trainer training = trainer(world, {.steps = 4, .hooks = hooks});
    training.fit();
    return training.job().optimizer.steps();
  }
};

TEST_F(HookInCTest, IsCalledAtTheMomentsOfAHookInCpp) {
  options_.accumulate = 2;
  on_ranks({1, 2}, [&](World& world) {
    const auto notes = std::make_shared<Notes>();
    notes->then["end_step"] = [&](Trainer& t) {
      if (t.step() == 1) t.save(in("order"));
    };
    NotesInC in_c;
    Trainer training = trainer(world, {.epochs = 1,
                                       .evaluate_every = 2,
                                       .evaluation = {set(world, "books", 3)},
                                       .hooks = {in_c.as_hook(), notes}});
    training.fit();
    EXPECT_GT(in_c.seen.size(), 40u);
    EXPECT_EQ(in_c.seen, notes->seen);
  });
}

TEST_F(HookInCTest, IsCalledOnlyAtItsMoments) {
  on_ranks({1}, [&](World& world) {
    NotesInC notes;
    notes.hook.moments = WEFT_MOMENT_BIT(WEFT_MOMENT_AFTER_STEP) | WEFT_MOMENT_BIT(WEFT_MOMENT_END);
    train_with(world, notes);
    EXPECT_THAT(notes.seen, ElementsAre("after_step", "after_step", "after_step", "after_step", "end"));
  });
}

TEST_F(HookInCTest, SeesStepResultsEvaluationAndFolder) {
  on_ranks({1, 2}, [&](World& world) {
    NotesInC notes;
    std::vector<double> losses, evaluated;
    Names folders;
    notes.then = [&](const weft_moment& moment) {
      EXPECT_EQ(moment.rank, static_cast<uint32_t>(world.rank()));
      EXPECT_EQ(moment.world_size, static_cast<uint32_t>(world.size()));
      EXPECT_EQ(moment.total_steps, kEpoch + 1);
      EXPECT_EQ(moment.epoch, moment.step > kEpoch ? 1 : 0);
      if (moment.kind == WEFT_MOMENT_BEFORE_STEP) {
        EXPECT_EQ(moment.result, nullptr);
        EXPECT_EQ((moment.flags & WEFT_STEP_ENDS_EPOCH) != 0, moment.step == kEpoch);
        EXPECT_EQ((moment.flags & WEFT_STEP_IS_LAST) != 0, moment.step == kEpoch + 1);
        EXPECT_EQ(moment.evaluated_step, moment.step > 4 ? 4 : moment.step > 2 ? 2 : -1);
      }
      if (moment.kind == WEFT_MOMENT_AFTER_STEP) {
        EXPECT_EQ(moment.result->index, moment.step);
        EXPECT_EQ(moment.result->updated, 1U);
        losses.push_back(moment.result->loss);
        EXPECT_EQ((moment.flags & WEFT_STEP_IS_EVALUATED) != 0,
                  moment.step % 2 == 0 || moment.step == kEpoch + 1);
      }
      if (moment.kind == WEFT_MOMENT_AFTER_EVALUATION)
        for (uint64_t i = 0; i < moment.num_evaluation; ++i)
          if (view(moment.evaluation[i].name) == "loss") evaluated.push_back(moment.evaluation[i].value);
      if (moment.kind == WEFT_MOMENT_BEFORE_SAVE) folders.emplace_back(view(moment.folder));
      return 0U;
    };
    const auto in_cpp = std::make_shared<Notes>();
    std::vector<double> expected, expected_evaluated;
    in_cpp->then = {
        {"after_step", [&](Trainer& t) { expected.push_back(t.result().loss); }},
        {"after_evaluation", [&](Trainer& t) { expected_evaluated.push_back(*t.evaluation()->at("loss")); }}};
    Trainer training = trainer(
        world, {.steps = kEpoch + 1,
                .evaluate_every = 2,
                .evaluation = {set(world, "a", 3)},
                .hooks = {in_cpp, notes.as_hook(),
                          std::make_shared<Checkpoints>(CheckpointOptions{.folder = in("seen")}, world)}});
    training.fit();
    EXPECT_EQ(losses, expected);
    EXPECT_EQ(losses.size(), static_cast<size_t>(kEpoch + 1));
    EXPECT_EQ(evaluated, expected_evaluated);
    EXPECT_EQ(evaluated.size(), 3u);
    EXPECT_THAT(folders, ElementsAre(in("seen")));
  });
}

TEST_F(HookInCTest, StopsAllRanksThoughOneAloneAsks) {
  on_ranks({1, 2, 3}, [&](World& world) {
    for (const uint32_t kind : {WEFT_MOMENT_BEFORE_STEP, WEFT_MOMENT_BEFORE_UPDATE, WEFT_MOMENT_AFTER_STEP}) {
      NotesInC notes;
      if (world.rank() == world.size() - 1) notes.then = asks(WEFT_ASK_STOP, kind, 2);
      EXPECT_EQ(train_with(world, notes), 2) << moment_name(kind);
    }
    NotesInC notes;
    if (world.rank() == world.size() - 1) notes.then = asks(WEFT_ASK_STOP, WEFT_MOMENT_BEGIN, 0);
    EXPECT_EQ(train_with(world, notes), 0);
    EXPECT_THAT(notes.seen, ElementsAre("begin", "end"));
  });
}

TEST_F(HookInCTest, EvaluatesAndSavesThoughOneRankAloneAsks) {
  on_ranks({1, 2}, [&](World& world) {
    NotesInC notes;
    const std::string folder = "alone-" + std::to_string(world.size());
    if (world.rank() == world.size() - 1)
      notes.then = [](const weft_moment& moment) {
        if (moment.kind == WEFT_MOMENT_AFTER_STEP && moment.step == 2)
          return WEFT_ASK_EVALUATE | WEFT_ASK_SAVE;
        if (moment.kind == WEFT_MOMENT_AFTER_EVALUATION && moment.step == 3) return WEFT_ASK_SAVE;
        return moment.kind == WEFT_MOMENT_BEFORE_STEP && moment.step == 3 ? WEFT_ASK_EVALUATE : 0U;
      };
    const auto in_cpp = std::make_shared<Notes>();
    std::vector<int64_t> evaluated;
    in_cpp->then["after_evaluation"] = [&](Trainer& t) { evaluated.push_back(t.step()); };
    Trainer training = trainer(
        world, {.steps = 5,
                .evaluate_every = 100,
                .evaluation = {set(world, "a", 3)},
                .hooks = {notes.as_hook(), in_cpp,
                          std::make_shared<Checkpoints>(CheckpointOptions{.folder = in(folder)}, world)}});
    training.fit();
    EXPECT_THAT(evaluated, ElementsAre(2, 3, 5));
    EXPECT_THAT(steps_in(folder), ElementsAre("step-2", "step-3"));
  });
}

TEST_F(HookInCTest, LeavesOutStepsAndUpdatesAsAHookInCpp) {
  on_ranks({1, 2}, [&](World& world) {
    const auto losses = [&](uint32_t kind) {
      NotesInC notes;
      std::vector<double> found;
      int64_t batches = 0;
      notes.then = [&, kind](const weft_moment& moment) {
        if (moment.kind == WEFT_MOMENT_BEFORE_STEP) ++batches;
        if (moment.kind == WEFT_MOMENT_AFTER_STEP && moment.result->updated == 1)
          found.push_back(moment.result->loss);
        return batches == 2 && moment.kind == kind ? WEFT_ASK_SKIP : 0U;
      };
      EXPECT_EQ(train_with(world, notes), 4);
      return found;
    };
    const std::vector<double> steps = losses(WEFT_MOMENT_BEFORE_STEP),
                              updates = losses(WEFT_MOMENT_BEFORE_UPDATE), none = losses(WEFT_MOMENTS);
    EXPECT_EQ(steps.size(), 4u);
    EXPECT_EQ(steps, updates) << "both train on the batches 1, 3, 4 and 5";
    EXPECT_EQ(steps[0], none[0]);
    EXPECT_NE(steps[1], none[1]);
  });
}

TEST_F(HookInCTest, IsRefusedRequestsWithoutEffect) {
  on_ranks({1}, [&](World& world) {
    const std::tuple<uint32_t, uint32_t, const char*> wrong[] = {
        {WEFT_ASK_SKIP, WEFT_MOMENT_AFTER_STEP, "WEFT_ASK_SKIP"},
        {WEFT_ASK_STOP, WEFT_MOMENT_END_STEP, "WEFT_ASK_STOP"},
        {WEFT_ASK_EVALUATE, WEFT_MOMENT_BEGIN, "WEFT_ASK_EVALUATE"},
        {WEFT_ASK_SAVE, WEFT_MOMENT_END_STEP, "WEFT_ASK_SAVE"},
        {WEFT_ASK_CHECK_STEP, WEFT_MOMENT_AFTER_STEP, "WEFT_ASK_CHECK_STEP"},
        {1U << 20, WEFT_MOMENT_AFTER_STEP, "0x100000"}};
    for (const auto& [request, kind, name] : wrong) {
      NotesInC notes;
      notes.then = asks(request, kind, kind == WEFT_MOMENT_BEGIN ? 0 : 1);
      EXPECT_ERROR(train_with(world, notes), WEFT_INVALID_ARGUMENT, name, moment_name(kind));
    }
  });
}

TEST_F(HookInCTest, IsRefusedASaveThatNobodyWrites) {
  on_ranks({1, 2}, [&](World& world) {
    NotesInC notes;
    if (world.rank() == 0) notes.then = asks(WEFT_ASK_SAVE, WEFT_MOMENT_AFTER_STEP, 1);
    EXPECT_ERROR(train_with(world, notes), WEFT_FAILED_PRECONDITION, "step 1");
    NotesInC evaluates;
    if (world.rank() == 0) evaluates.then = asks(WEFT_ASK_EVALUATE, WEFT_MOMENT_AFTER_STEP, 1);
    EXPECT_ERROR(train_with(world, evaluates), WEFT_FAILED_PRECONDITION, "evaluate");
  });
}

TEST_F(HookInCTest, EndsTheTrainingWithTheTextOfItsFailure) {
  on_ranks({1, 2}, [&](World& world) {
    NotesInC notes;
    notes.then = [](const weft_moment& moment) -> uint32_t {
      if (moment.kind == WEFT_MOMENT_BEFORE_STEP && moment.step == 3)
        fail(WEFT_RESOURCE_EXHAUSTED, "the cup is full");
      return 0;
    };
    EXPECT_ERROR(train_with(world, notes), WEFT_RESOURCE_EXHAUSTED, "notes_in_c", "the cup is full");
    EXPECT_EQ(notes.seen.back(), "before_step");
  });
}

TEST_F(HookInCTest, EndsAllRanksIfItFailsOnOneAlone) {
  on_ranks({2, 3}, [&](World& world) {
    for (const uint32_t kind : {WEFT_MOMENT_BEGIN, WEFT_MOMENT_BEFORE_STEP, WEFT_MOMENT_AFTER_STEP}) {
      NotesInC notes;
      notes.then = [&](const weft_moment& moment) -> uint32_t {
        if (world.rank() == 1 && moment.kind == kind && (kind == WEFT_MOMENT_BEGIN || moment.step == 2))
          fail(WEFT_UNAVAILABLE, "no room");
        return 0;
      };
      EXPECT_ERROR(train_with(world, notes), WEFT_UNAVAILABLE, world.rank() == 1 ? "hook" : "rank 1",
                   "notes_in_c", "no room");
    }
  });
}

TEST_F(HookInCTest, HasItsStateAgainAfterAResume) {
  on_ranks({1, 2}, [&](World& world) {
    NotesInC notes, later, none;
    const std::string folder = in("resumed-" + std::to_string(world.size()));
    notes.kept = world.rank() == 0 ? "seven \u00e9" : "that of another rank";
    train_with(world, notes, {std::make_shared<Checkpoints>(CheckpointOptions{.folder = folder}, world)});
    Booster booster({}, world);
    Job job = make_job(world, options_);
    booster.load_training(job, folder);
    Trainer training(booster, job, {.steps = 5, .hooks = {later.as_hook()}});
    training.fit();
    EXPECT_EQ(later.restored, "seven \u00e9");
    none.hook.state = nullptr;
    none.hook.restore = nullptr;
    Trainer other(booster, job, {.steps = 6, .hooks = {none.as_hook()}});
    EXPECT_ERROR(other.fit(), WEFT_INVALID_ARGUMENT, "notes_in_c", "state");
  });
}

TEST_F(HookInCTest, IsRefusedIfItBreaksTheRules) {
  const auto refused = [](const std::function<void(weft_hook&)>& change, const char* what) {
    NotesInC notes;
    change(notes.hook);
    EXPECT_ERROR(notes.as_hook(), WEFT_INVALID_ARGUMENT, what);
  };
  refused([](weft_hook& hook) { hook.name = {}; }, "name");
  refused([](weft_hook& hook) { hook.name = WEFT_STR("\xff"); }, "UTF-8");
  refused([](weft_hook& hook) { hook.moments |= WEFT_MOMENT_BIT(40); }, "40");
  refused([](weft_hook& hook) { hook.at = nullptr; }, "at");
  refused([](weft_hook& hook) { hook.state = nullptr; }, "state");
  refused([](weft_hook& hook) { hook.restore = nullptr; }, "restore");
  refused([](weft_hook& hook) { hook.struct_size = 16; }, "struct_size");
}

// samples/hook_c.
TEST_F(HookInCTest, MayBeMadeByALibrary) {
  setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  on_ranks({1, 2}, [&](World& world) {
    EXPECT_ERROR(library_hook("time_budgte"), WEFT_NOT_FOUND, "time_budgte", "time_budget");
    EXPECT_ERROR(library_hook("time_budget", R"({"second": 1})"), WEFT_INVALID_ARGUMENT, "second", "seconds");
    EXPECT_ERROR(library_hook("time_budget", R"({"seconds": -1})"), WEFT_INVALID_ARGUMENT, "seconds", "-1");
    EXPECT_ERROR(library_hook("time_budget", "[]"), WEFT_INVALID_ARGUMENT, "time_budget", "[]");
    const auto endless = library_hook("time_budget"), over = library_hook("time_budget", R"({"seconds": 0})");
    for (const auto& [hook, steps] : {std::pair(endless, 3), std::pair(over, 1)}) {
      Trainer training = trainer(world, {.steps = 3, .hooks = {hook}});
      training.fit();
      EXPECT_EQ(training.step(), steps);
      EXPECT_GT(std::stod(hook->state()), 0);
    }
    over->restore("2.500");
    EXPECT_EQ(over->state(), "2.500");
    EXPECT_ERROR(over->restore("two"), WEFT_INVALID_ARGUMENT, "time_budget");
  });
}

}  // namespace
}  // namespace weft::test
