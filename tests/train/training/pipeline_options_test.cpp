// Options of the pipeline axis beside its sizes and styles: how many layers each stage has, which of them are
// recomputed, a schedule from a file, and how ranks are numbered.
#include <fmt/format.h>

#include <map>

#include "plugins/support/parity.hpp"
#include "policies/gpt2/gpt2_trial.hpp"
#include "policies/t5/tiny_t5.hpp"
#include "schedule/make.hpp"
#include "schedule/text.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

using Names = std::vector<std::string>;
using Runs = std::map<std::string, int>;

// Has 8 units, 6 of which are layers.
Trial deep_trial() {
  Trial trial = gpt2_trial("GPT2LMHeadModel", "fp64");
  trial.batch = [](int64_t step) { return gpt2_batch(7, step); };
  trial.model = [](const JobOptions& options) {
    return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4, .layers = 6});
  };
  return trial;
}

// `more` are options as members of a JSON object.
JobOptions staged(const std::string& more, const std::string& strategy = "torch_ddp") {
  return {.strategy = strategy,
          .options = fmt::format(R"({{"pp_size": 2{}{}}})", more.empty() ? "" : ", ", more),
          .precision = "fp64"};
}

Names units_of(const Job& job) {
  Names names;
  for (const weft_unit* unit : job.model.shared().bindings().own_units()) names.push_back(unit->unit->name());
  return names;
}

// Expects that the options are refused for a model of 6 layers.
void expect_refused(const World& world, const std::string& options, weft_status status,
                    const std::string& text, const std::string& more = "") {
  const JobOptions given = staged(options);
  EXPECT_ERROR(boost(world, deep_trial().model(given), given), status, text, more) << options;
}

WEFT_RANKS_TEST(LayerOptions, AreRefusedIfTheyDoNotFit, 2) {
  const auto refused = [&](const char* counts, const char* text, const char* more = "") {
    expect_refused(world, fmt::format(R"("num_layers_per_stage": {})", counts), WEFT_INVALID_ARGUMENT, text,
                   more);
  };
  refused("[6]", "num_layers_per_stage has 1 entries, but pp_size 2 needs 2");
  refused("[1, 2]", "num_layers_per_stage is [1, 2], 3 layers", "model has 6");
  refused("[6, -1]", "num_layers_per_stage is [6,-1]", "of layers");
  refused("[]", "a list", "of layers");
  refused("{}", "a list", "of layers");
  refused("6", "num_layers_per_stage is 6", "JSON array");
  refused(R"([2, 4], "pp_style": "zbv")", "pp_size 2 with 2 model chunks", "needs 4");
}

WEFT_RANKS_TEST(LayerOptions, DivideTheModel, 2) {
  const bool first = world.rank() == 0;
  const auto units = [&](const std::string& options) {
    const JobOptions given = staged(options);
    return units_of(boost(world, deep_trial().model(given), given));
  };
  EXPECT_EQ(units(R"("num_layers_per_stage": [1, 5])"),
            first ? (Names{"prologue", "h.0"}) : (Names{"h.1", "h.2", "h.3", "h.4", "h.5", "epilogue"}));
  EXPECT_EQ(units(R"("num_layers_per_stage": [6, 0])"),
            first ? (Names{"prologue", "h.0", "h.1", "h.2", "h.3", "h.4", "h.5"}) : (Names{"epilogue"}));
  EXPECT_EQ(units(R"("num_layers_per_stage": [0, 4, 1, 1], "pp_style": "interleaved")"),
            first ? (Names{"prologue", "h.4"}) : (Names{"h.0", "h.1", "h.2", "h.3", "h.5", "epilogue"}));
  EXPECT_EQ(units(R"("num_layers_per_stage": [0, 4, 1, 1], "pp_style": "zbv")"),
            first ? (Names{"prologue", "h.5", "epilogue"}) : (Names{"h.0", "h.1", "h.2", "h.3", "h.4"}));
}

// The toy model has three blocks. A recomputed unit runs twice for each of the two micro-batches.
WEFT_RANKS_TEST(CheckpointConfig, RecomputesTheFirstLayersOfEachStage, 2) {
  const auto runs = [&](const std::string& options) {
    const JobOptions given = staged(options + R"(, "num_layers_per_stage": [2, 1], "num_microbatches": 2)");
    const std::shared_ptr<ToyModel> model = make_toy(R"("gated": false)", at::kDouble);
    Job job = boost(world, Model::adopt(model), given);
    job.train_step(toy_batch(4, 1, false));
    return model->runs();
  };
  const auto expected = [&](int block0, int block1, int block2) {
    return world.rank() == 0 ? Runs{{"embed", 2}, {"blocks.0", block0}, {"blocks.1", block1}}
                             : Runs{{"blocks.2", block2}, {"head", 2}};
  };
  EXPECT_EQ(runs(R"("gradient_checkpoint_config": null)"), expected(2, 2, 2));
  EXPECT_EQ(runs(R"("gradient_checkpoint_config": {"num_ckpt_layers_per_stage": [1, 1]})"),
            expected(4, 2, 4));
  EXPECT_EQ(runs(R"("gradient_checkpoint_config": {"num_ckpt_layers_per_stage": [2, 0]})"),
            expected(4, 4, 2));
  EXPECT_EQ(runs(R"("gradient_checkpoint_config": {"gradient_checkpointing_ratio": 0.5})"),
            expected(4, 2, 2));
  EXPECT_EQ(runs(R"("gradient_checkpoint_config": {"gradient_checkpointing_ratio": 1})"), expected(4, 4, 4));
}

WEFT_RANKS_TEST(CheckpointConfig, IsRefusedIfItDoesNotFit, 2) {
  const auto refused = [&](const char* config, const char* text, const char* more = "") {
    expect_refused(world, fmt::format(R"("gradient_checkpoint_config": {})", config), WEFT_INVALID_ARGUMENT,
                   text, more);
  };
  refused("{}", "gradient_checkpoint_config is {}", "gradient_checkpointing_ratio or");
  refused(R"({"gradient_checkpointing_ratio": 0.5, "num_ckpt_layers_per_stage": [1, 1]})",
          "gradient_checkpointing_ratio or num_ckpt_layers_per_stage");
  refused(R"({"gradient_checkpointing_ratio": 1.5})",
          "gradient_checkpoint_config: gradient_checkpointing_ratio is 1.5", "0 to 1");
  refused(R"({"gradient_checkpointing_ratios": 1})", "did you mean \"gradient_checkpointing_ratio\"?");
  refused("[1, 1]", "gradient_checkpoint_config: the options");
  refused(R"({"num_ckpt_layers_per_stage": [1]})", "num_ckpt_layers_per_stage has 1 entries");
  refused(R"({"num_ckpt_layers_per_stage": [1, 4]}, "num_layers_per_stage": [3, 3])",
          "num_ckpt_layers_per_stage is [1, 4]", "entry 1 has 3 layers");
  JobOptions both = staged(R"("gradient_checkpoint_config": {"gradient_checkpointing_ratio": 1})");
  both.recompute = "all";
  EXPECT_ERROR(boost(world, deep_trial().model(both), both), WEFT_INVALID_ARGUMENT, "recompute is \"all\"",
               "gradient_checkpoint_config");
}

TEST(LayerOptions, HaveTheGradientsOfOneRank) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& options, const Trial& trial = deep_trial()) {
    cases.push_back({staged(options + R"(, "num_microbatches": 3)"), trial, options});
  };
  add(R"("num_layers_per_stage": [5, 1])");
  add(R"("num_layers_per_stage": [0, 6], "gradient_checkpoint_config": {"gradient_checkpointing_ratio": 0.5})");
  add(R"("num_layers_per_stage": [2, 2, 2, 0], "pp_style": "interleaved",
         "gradient_checkpoint_config": {"num_ckpt_layers_per_stage": [0, 2, 1, 0]})");
  add(R"("num_layers_per_stage": [0, 3, 2, 1], "pp_style": "zbv",
         "gradient_checkpoint_config": {"num_ckpt_layers_per_stage": [0, 1, 2, 1]})");
  expect_gradients_of_one_rank(cases, 2);
}

// The end of an encoder stays with its last layer, wherever the stages begin.
TEST(LayerOptions, DivideAnEncoderAndADecoder) {
  const Trial trial = t5_trial(kGeneration, kTied, 1e-10);
  Job whole = boost(one_rank(), trial.model({.precision = "fp64"}), {.precision = "fp64"});
  int64_t layers = 0;
  for (const std::string& name : units_of(whole)) layers += name.find(".block.") != name.npos ? 1 : 0;
  ASSERT_GE(layers, 2);
  std::vector<Case> cases;
  for (int64_t first = 0; first <= layers; ++first)
    cases.push_back(
        {staged(fmt::format(R"("num_layers_per_stage": [{}, {}])", first, layers - first)), trial, "t5"});
  expect_gradients_of_one_rank(cases, 2);
}

class ScheduleFile : public testing::Test {
 protected:
  std::string option(const std::string& rows, const std::string& name = "schedule.txt") const {
    return fmt::format(R"("schedule_file": "{}")", folder_.file(name, rows));
  }
  TemporaryFolder folder_;
};

TEST_F(ScheduleFile, IsRefusedIfItCannotBeRun) {
  const World world = one_rank();
  const std::string plain = option("F0 F1 B0 B1\nF0 B0 F1 B1\n");
  const auto refused = [&](const std::string& options, const std::string& text,
                           weft_status status = WEFT_INVALID_ARGUMENT) {
    expect_refused(world, options, status, text);
  };
  refused(R"("schedule_file": "none/there.txt")", "schedule_file: cannot open none/there.txt",
          WEFT_NOT_FOUND);
  refused(R"("schedule_file": "")", "schedule_file: cannot open", WEFT_NOT_FOUND);
  refused(plain + R"(, "num_microbatches": 4)", "has 2 micro-batches, but num_microbatches is 4");
  expect_refused(world, plain + R"(, "microbatch_size": 4)", WEFT_INVALID_ARGUMENT, "schedule_file",
                 "no effect");
  refused(plain + R"(, "pp_style": "interleaved")", "schedule_file " + folder_.path());
  refused(option("F0 B0\n", "one"), "those of 2");
  refused(option("F0 B0\nF0\n", "lacking"), "stage 1");
  refused(option("F0 B0\nF0 G0\n", "word"), "\"G0\", word 2 of stage 1");
  refused(option("F0 F1 B0 B1\nF0 F1 B1 B0\n", "order"), "in ascending");
  refused(option("F0 B0 F1 B1\nF0 F1 B0 B1\n", "circle"), "stages wait");
  JobOptions accumulating = staged(plain);
  accumulating.accumulate = 2;
  EXPECT_ERROR(boost(world, deep_trial().model(accumulating), accumulating), WEFT_INVALID_ARGUMENT,
               "whole step", "accumulate is 2");
}

TEST_F(ScheduleFile, MustBeTheSameOnAllRanks) {
  on_ranks({2}, [&](World& world) {  // with equal paths
    const std::string own = folder_.path() + "/" + std::to_string(world.rank());
    std::filesystem::create_directories(own);
    std::filesystem::current_path(own);
    std::ofstream("schedule.txt") << "F0 F1 B0 B1\n"
                                  << (world.rank() == 0 ? "F0 B0 F1 B1\n" : "F0 F1 B0 B1\n");
    expect_refused(world, R"("schedule_file": "schedule.txt")", WEFT_FAILED_PRECONDITION,
                   "schedule_file: rank 0 has operations");
  });
}

// The ranks ask for their part of the data before they boost. That needs no schedule, so the rank without the
// file does not fail there alone.
TEST_F(ScheduleFile, IsAnErrorOnAllRanksIfOneLacksIt) {
  on_ranks({2}, [&](World& world) {
    const std::string own = folder_.path() + "/" + std::to_string(world.rank());
    std::filesystem::create_directories(own);
    std::filesystem::current_path(own);
    if (world.rank() == 0) std::ofstream("schedule.txt") << "F0 F1 B0 B1\nF0 B0 F1 B1\n";
    const JobOptions options = staged(R"("schedule_file": "schedule.txt")");
    Booster booster(booster_options_of(options), world);
    EXPECT_EQ(booster.data_size(), 1);
    EXPECT_ERROR(booster.boost(deep_trial().model(options)), WEFT_NOT_FOUND,
                 world.rank() == 0 ? "rank 1 failed: schedule_file: cannot open schedule.txt"
                                   : "schedule_file: cannot open schedule.txt");
  });
}

TEST_F(ScheduleFile, NamesAccumulateIfAJobSetsIt) {
  const JobOptions options = staged(option("F0 F1 B0 B1\nF0 B0 F1 B1\n"));
  on_ranks({2}, [&](World& world) {
    const Trial trial = deep_trial();
    Job job = boost(world, trial.model(options), options);
    job.accumulate = 2;
    EXPECT_ERROR(job.train_step(trial.batch(1)), WEFT_INVALID_ARGUMENT, "whole step", "2 micro-batches",
                 "step has 4", "accumulate to 1");
    job.accumulate = 1;
    EXPECT_NO_THROW(job.train_step(trial.batch(1)));  // no harm was done
  });
}

// Orders that no style makes: all forwards first on one stage only, backwards that are split on one stage
// only, and weight gradients as late as possible.
TEST_F(ScheduleFile, HasTheGradientsOfOneRank) {
  std::vector<Case> cases;
  const auto add = [&](const char* name, const std::string& rows, const std::string& more = "",
                       const char* strategy = "torch_ddp") {
    cases.push_back({staged(option(rows, name) + more, strategy), deep_trial(), name});
  };
  const std::string last = "F0 B0 F1 B1 F2 B2\n", late = "F0 I0 F1 I1 F2 I2 W0 W1 W2\n";
  add("forwards", "F0 F1 F2 B0 B1 B2\n" + last);
  add("halves", "F0 F1 I0 F2 W0 I1 I2 W1 W2\n" + late, R"(, "zero_stage": 1)", "hybrid_parallel");
  add("last_halves", "F0 F1 B0 F2 B1 B2\n" + late);
  add("first_halves", "F0 F1 I0 F2 W0 I1 I2 W1 W2\n" + last, R"(, "stage": 1)", "low_level_zero");
  add("vee", pipeline::rows(pipeline::make_schedule({"zbv", 2, 5, 2})), R"(, "pp_style": "zbv")");
  // A V without split backwards, and chunks whose micro-batches go one by one.
  add("whole_vee", "F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0\nF0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0\n",
      R"(, "pp_style": "zbv")");
  add("chunks", "F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0\nF0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0\n",
      R"(, "pp_style": "interleaved", "num_model_chunks": 2)");
  expect_gradients_of_one_rank(cases, 2);
}

TEST_F(ScheduleFile, EvaluatesAsOneRank) {
  const Batch batch = gpt2_batch(7, 1);
  const Trial trial = deep_trial();
  Job alone = boost(one_rank(), trial.model({.precision = "fp64"}), {.precision = "fp64"});
  const double expected = alone.evaluate(batch).loss();
  const JobOptions options = staged(option("F0 F1 F2 B0 B1 B2\nF0 B0 F1 B1 F2 B2\n"));
  on_ranks({2}, [&](World& world) {
    Job job = boost(world, trial.model(options), options);
    EXPECT_NEAR(job.evaluate(batch).loss(), expected, 1e-12);
    EXPECT_NEAR(job.train_step(batch).loss, expected, 1e-12);
  });
}

// The ranks of one stage are neighbours, and those of one micro-batch far apart.
TEST(StagesOutside, HaveTheGradientsOfOneRank) {
  std::vector<Case> cases;
  const auto add = [&](const char* strategy, const std::string& more = "") {
    cases.push_back({staged(R"("dp_outside": false, "num_microbatches": 3)" + more, strategy), deep_trial(),
                     strategy + more});
  };
  add("torch_ddp");
  add("torch_ddp", R"(, "pp_style": "interleaved")");
  add("torch_ddp", R"(, "tp_size": 2)");
  add("low_level_zero", R"(, "stage": 1, "pp_style": "zbv")");
  add("hybrid_parallel", R"(, "zero_stage": 1)");
  add("hybrid_parallel", R"(, "sp_size": 2, "enable_sequence_parallelism": true,
                            "sequence_parallelism_mode": "all_to_all")");
  expect_gradients_of_one_rank(cases, 4);
}

TEST(StagesOutside, HaveTheGradientsOfOneRankBesideATensorAxis) {
  const JobOptions options =
      staged(R"("tp_size": 2, "zero_stage": 1, "dp_outside": false)", "hybrid_parallel");
  const std::vector<Case> cases = {Case{options, deep_trial(), "8 ranks"}};
  expect_gradients_of_one_rank(cases, 8);
}

}  // namespace

}  // namespace weft::test
