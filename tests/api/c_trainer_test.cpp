// The trainer of the C API: the numbers of the one in C++, its options, and what it refuses.
#include <gmock/gmock.h>

#include <filesystem>

#include "api/c_hook.hpp"
#include "application/handles.hpp"
#include "application/objects.hpp"
#include "base/error_sink.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {
namespace {

using testing::ElementsAre;

const weft_application_table& c() {
  return application::table();
}

// A job with the objects of the C API.
struct JobInC {
  weft_booster booster;
  weft_job job;

  JobInC(const World& world, const JobOptions& options)
      : booster{Booster({}, world)}, job{booster.booster, make_job(world, options)} {}
};

// What a trainer in C was told, and what became of it.
class TrainerInC {
 public:
  TrainerInC(JobInC& of, const std::string& options, const std::vector<weft_evaluation_set>& sets = {},
             const std::vector<const weft_hook*>& hooks = {}) {
    const weft_trainer_arguments arguments = {sizeof(arguments), borrow(options), hooks.data(),
                                              hooks.size(),      sets.data(),     sets.size()};
    ErrorSink error;
    error.check(c().weft_trainer_create(&of.booster, &of.job, &arguments, &trainer_, error));
  }
  TrainerInC(const TrainerInC&) = delete;
  ~TrainerInC() { c().weft_trainer_destroy(trainer_); }

  TrainerInC& fit() {
    ErrorSink error;
    error.check(c().weft_trainer_fit(trainer_, error));
    return *this;
  }
  weft_moment describe() {
    weft_moment moment = {};
    moment.struct_size = sizeof(moment);
    ErrorSink error;
    error.check(c().weft_trainer_describe(trainer_, &moment, error));
    return moment;
  }
  EvaluationValues values() {
    EvaluationValues values;
    const weft_moment moment = describe();
    for (uint64_t i = 0; i < moment.num_evaluation; ++i)
      values[std::string(view(moment.evaluation[i].name))] =
          moment.evaluation[i].defined != 0 ? std::optional(moment.evaluation[i].value) : std::nullopt;
    return values;
  }

 private:
  weft_trainer* trainer_ = nullptr;
};

class TrainerInCTest : public TrainerTest {
 protected:
  void refuses(const World& world, const std::string& options, std::initializer_list<std::string> pieces,
               weft_status status = WEFT_INVALID_ARGUMENT) {
    JobInC job(world, options_);
    EXPECT_TRUE(throws_error([&] { TrainerInC(job, options); }, status, pieces)) << options;
  }
};

TEST_F(TrainerInCTest, HasTheBitsOfATrainerInCpp) {
  options_.max_grad_norm = 0.5;
  on_ranks({1, 2}, [&](World& world) {
    const auto notes = std::make_shared<Notes>();
    std::vector<double> expected, found;
    notes->then["after_step"] = [&](Trainer& t) { expected.push_back(t.result().loss); };
    Trainer in_cpp = trainer(world, {.epochs = 2,
                                     .evaluate_every_epoch = true,
                                     .evaluation = {set(world, "a", 3), set(world, "b", 4)},
                                     .hooks = {notes}});
    in_cpp.fit();

    NotesInC notes_in_c;
    notes_in_c.then = [&](const weft_moment& moment) {
      if (moment.kind == WEFT_MOMENT_AFTER_STEP) found.push_back(moment.result->loss);
      return 0U;
    };
    JobInC job(world, options_);
    weft_data a = {set(world, "a", 3).data}, b = {set(world, "b", 4).data};
    TrainerInC in_c(job, R"({"epochs": 2, "evaluate_every": "epoch"})",
                    {{WEFT_STR("a"), &a}, {WEFT_STR("b"), &b}}, {&notes_in_c.hook});
    EXPECT_EQ(in_c.describe().step, 0);
    EXPECT_EQ(in_c.describe().result, nullptr);
    in_c.fit();
    EXPECT_EQ(found.size(), static_cast<size_t>(2 * kEpoch));
    EXPECT_EQ(found, expected);
    EXPECT_EQ(in_c.values(), *in_cpp.evaluation());
    const weft_moment ended = in_c.describe();
    EXPECT_EQ(ended.kind, WEFT_MOMENT_END);
    EXPECT_EQ(ended.step, 2 * kEpoch);
    EXPECT_EQ(ended.total_steps, 2 * kEpoch);
    EXPECT_EQ(ended.evaluated_step, 2 * kEpoch);
    EXPECT_EQ(ended.result->loss, expected.back());
    EXPECT_EQ(ended.result->grad_norm, *in_cpp.result().grad_norm);
    EXPECT_ERROR(in_c.fit(), WEFT_FAILED_PRECONDITION, "weft_trainer_fit");
  });
}

TEST_F(TrainerInCTest, SavesKeepsRecordsAndStopsAsItsOptionsSay) {
  setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  on_ranks({1, 2}, [&](World& world) {
    const std::string name = "out-" + std::to_string(world.size());
    const std::string options = R"({"steps": 6, "evaluate_every": 2, "save_every": 3, "keep_best": "loss",
        "patience": 50, "on_nonfinite": "stop", "save_async": null, "end_with_best": false, "output": ")" +
                                in(name) + R"(", "metrics": ")" + in(name + ".jsonl") +
                                R"(", "hook": ["time_budget"], "hook_options": {"time_budget.file": ")" +
                                in(name + ".tsv") + "\"}}";
    {
      JobInC job(world, options_);
      weft_data held_out = {set(world, "a", 3).data};
      TrainerInC(job, options, {{{}, &held_out}}).fit();
    }
    EXPECT_TRUE(std::filesystem::exists(in(name + "/model.safetensors")));
    EXPECT_TRUE(std::filesystem::is_symlink(in(name + "/best")));
    EXPECT_THAT(steps_in(name), testing::IsSupersetOf({"step-2", "step-3"}));
    const auto lines = [&](const std::string& file) {
      std::ifstream stream(in(file));
      return std::count(std::istreambuf_iterator<char>(stream), {}, '\n');
    };
    if (world.is_master()) {
      EXPECT_EQ(lines(name + ".tsv"), 6);
      EXPECT_EQ(lines(name + ".jsonl"), 6);
    }
  });
}

TEST_F(TrainerInCTest, GoesOnWhereAnotherOneEnded) {
  on_ranks({2}, [&](World& world) {
    JobInC job(world, options_), whole(world, options_);
    TrainerInC(job, R"({"steps": 3})").fit();
    TrainerInC rest(job, R"({"steps": 6})"), all(whole, R"({"steps": 6})");
    EXPECT_EQ(rest.fit().describe().result->loss, all.fit().describe().result->loss);
    EXPECT_EQ(rest.describe().step, 6);
  });
}

TEST_F(TrainerInCTest, IsRefusedOptionsThatDoNotFit) {
  on_ranks({2}, [&](World& world) {
    refuses(world, R"({"step": 3})", {"step", "did you mean"});
    refuses(world, R"({"steps": "3"})", {"steps", "\"3\""});
    refuses(world, R"({"steps": 3, "epochs": 1})", {"steps", "epochs"});
    refuses(world, R"({"steps": 3, "keep_best": "loss"})", {"keep_best", "output"});
    refuses(world, R"({"steps": 3, "evaluate_every": 1})", {"evaluat"});
    refuses(world, R"({"steps": 3, "evaluate_every": "often"})", {"evaluate_every", "often"});
    refuses(world, R"({"steps": 3, "hook": "time_budget"})", {"hook", "array"});
    refuses(world, R"({"steps": 3, "hook_options": {"time_budget.file": "x"}})", {"hook_options", "hook"});
    refuses(world, R"({"hook": ["time_budget"], "hook_options": {"seconds": 1}})",
            {"hook_options", "time_budget.KEY"});
    refuses(world, R"({"hook": ["time_budget", "time_budget"]})", {"time_budget", "twice"});
    refuses(world, R"({"hook": ["nothing_of_that"]})", {"nothing_of_that"}, WEFT_NOT_FOUND);
    refuses(world, "[]", {"options", "object"});
    refuses(world, world.rank() == 0 ? R"({"steps": 3})" : R"({"steps": 4})", {"steps", "rank"},
            WEFT_FAILED_PRECONDITION);
    JobOptions no_optimizer = options_;
    no_optimizer.optimizer = "";
    JobInC job(world, no_optimizer);
    EXPECT_ERROR(TrainerInC(job, R"({"steps": 3})"), WEFT_FAILED_PRECONDITION, "optimizer");
  });
}

TEST_F(TrainerInCTest, IsRefusedEvaluationDataOutOfOrder) {
  on_ranks({1, 2}, [&](World& world) {
    const auto create = [&](data::LoaderOptions options, bool of_job = false) {
      JobInC job(world, options_);
      options.batch_size = 4;
      options.rank = world.rank();
      options.ranks = world.size();
      weft_data held_out = {of_job ? job.job.job.data : data::Loader(data::text(options_.data, 32), options)};
      TrainerInC(job, R"({"steps": 2, "evaluate_every": 1})", {{WEFT_STR("a"), &held_out}}).fit();
    };
    create({});
    EXPECT_ERROR(create({.shuffle = true}), WEFT_INVALID_ARGUMENT, "shuffle");
    EXPECT_ERROR(create({.drop_last = true}), WEFT_INVALID_ARGUMENT, "drop_last");
    options_.shuffle = false;
    EXPECT_ERROR(create({}, true), WEFT_INVALID_ARGUMENT, "a", "job");
  });
}

TEST_F(TrainerInCTest, IsRefusedHooksThatDifferBetweenRanks) {
  on_ranks({2}, [&](World& world) {
    JobInC job(world, options_);
    NotesInC notes, other;
    if (world.rank() == 1) other.hook.moments = 1;
    other.hook.name = WEFT_STR("other");
    const std::vector<const weft_hook*> both = {&notes.hook, &other.hook}, twice = {&notes.hook, &notes.hook};
    EXPECT_ERROR(TrainerInC(job, R"({"steps": 1})", {}, both), WEFT_FAILED_PRECONDITION, "moments");
    EXPECT_ERROR(TrainerInC(job, R"({"steps": 1})", {}, twice), WEFT_INVALID_ARGUMENT, "notes_in_c");
    other.hook.at = nullptr;
    EXPECT_ERROR(TrainerInC(job, R"({"steps": 1})", {}, both), WEFT_INVALID_ARGUMENT, "hook 1", "at");
  });
}

}  // namespace
}  // namespace weft::test
