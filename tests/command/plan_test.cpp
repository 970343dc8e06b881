// `weft plan`: its estimates, and the flags that it refuses.
#include <gmock/gmock.h>

#include <fstream>

#include "command/command.hpp"

namespace weft::test {
namespace {

constexpr int kFailed = 1, kUsage = 2;

class PlanCommand : public CommandTest {
 protected:
  Words plan(const Words& more = {}) const { return Words{"plan", "--model", config_} + more; }
};

TEST_F(PlanCommand, RefusesSizesThatAreOutOfRange) {
  EXPECT_TRUE(refuses(plan({"-n", "0"}), kUsage, {"-n,--world-size is \"0\"", "from 1 to"}));
  EXPECT_TRUE(refuses(plan({"--batch-size", "9223372036854775807"}), kUsage,
                      {"--batch-size is \"9223372036854775807\"", "from 1 to 1073741824"}));
  EXPECT_TRUE(refuses(plan({"--sequence-length", "33"}), kFailed, {"--sequence-length is 33", "at most 32"}));
  EXPECT_TRUE(
      refuses(plan({"--explain", "--tensor-size", "-1"}), kUsage, {"--tensor-size is \"-1\"", "from 1 to"}));
  EXPECT_TRUE(refuses(plan({"--tensor-size", "2"}), kFailed, {"--tensor-size needs --explain"}));
  EXPECT_TRUE(refuses(plan({"--explain", "--json"}), kFailed, {"--json and --explain exclude each other"}));
  for (const char* memory : {"inf", "nan", "-1GiB", "1gb", "8 GiB", "0", ""})
    EXPECT_TRUE(refuses(plan({"--memory", memory}), kFailed,
                        {"--memory is \"" + std::string(memory) + "\", must be a number of bytes above 0"}));
}

TEST_F(PlanCommand, EstimatesTheBytesOfOneRank) {
  const auto estimate = [&](const Words& more) {
    const nlohmann::json rows = nlohmann::json::parse(
        expect_success(plan(Words{"--json", "-n", "4", "--strategy", "torch_ddp"} + more)).out);
    EXPECT_EQ(rows.size(), 1u);
    return rows.at(0).at("bytes");
  };
  const nlohmann::json single = estimate({}), half = estimate({"--precision", "bf16"});
  EXPECT_EQ(single.at("states"), 2 * single.at("parameters").get<int64_t>());
  EXPECT_EQ(single.at("parameters"), 2 * half.at("parameters").get<int64_t>());
  EXPECT_EQ(half.at("masters"), single.at("parameters"));
  const nlohmann::json longer = estimate({"--batch-size", "2"});
  EXPECT_GT(longer.at("activations"), single.at("activations"));
  EXPECT_EQ(longer.at("parameters"), single.at("parameters"));
}

// The ranks of a tensor axis send activations, which grow with the batch.
TEST_F(PlanCommand, EstimatesWhatLayersSend) {
  const Words axes = {"-n", "4", "--strategy", "hybrid_parallel", "-o", "tp_size=2"};
  const auto reduced = [&](const Words& more) {
    const nlohmann::json rows = nlohmann::json::parse(expect_success(plan(Words{"--json"} + more)).out);
    return rows.at(0).at("sent_bytes_in_layers").at("all_reduce").get<int64_t>();
  };
  const int64_t once = reduced(axes);
  EXPECT_GT(once, 0);
  EXPECT_EQ(reduced(axes + Words{"--batch-size", "3"}), 3 * once);
  EXPECT_EQ(reduced({"-n", "4", "--strategy", "torch_ddp"}), 0);
  EXPECT_NE(expect_success(plan(axes)).out.find("hybrid_parallel also sends "), std::string::npos);
}

class T5PlanCommand : public CommandTest {
 protected:
  // Returns the estimate for a T5 with this feed-forward layer: 2 + 3 blocks, 2 ranks, 4 samples of 16 tokens
  // on each.
  nlohmann::json estimate(const std::string& activation, int64_t width = 24) const {
    const std::string config =
        folder_.file("t5.json", R"({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5",
        "vocab_size": 101, "d_model": 16, "d_kv": 8, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 3,
        "decoder_start_token_id": 0, "relative_attention_num_buckets": 8, "feed_forward_proj": ")" +
                                    activation + "\", \"d_ff\": " + std::to_string(width) + "}");
    const Output output = expect_success({"plan", "--model", config, "--strategy", "torch_ddp", "-n", "2",
                                          "--batch-size", "4", "--sequence-length", "16", "--json"});
    return nlohmann::json::parse(output.out).at(0);
  }
  int64_t activations(const std::string& activation, int64_t width = 24) const {
    return estimate(activation, width).at("bytes").at("activations").get<int64_t>();
  }
};

TEST_F(T5PlanCommand, CountsParametersGradientsAndStates) {
  constexpr int64_t kWidth = 16, kInner = 2 * 8, kHidden = 24, kEncoder = 2, kDecoder = 3;
  constexpr int64_t kAttention = 4 * kWidth * kInner + kWidth, kFeedForward = 2 * kWidth * kHidden + kWidth;
  constexpr int64_t kElements = 101 * kWidth + kEncoder * (kAttention + kFeedForward) +
                                kDecoder * (2 * kAttention + kFeedForward) +
                                2 * (8 * 2 + kWidth);  // position biases and last norms
  const nlohmann::json found = estimate("relu"), bytes = found.at("bytes");
  EXPECT_EQ(bytes.at("parameters"), 4 * kElements);
  EXPECT_EQ(bytes.at("gradients"), 2 * 4 * kElements);  // and their buckets
  EXPECT_EQ(bytes.at("states"), 2 * 4 * kElements);
  EXPECT_EQ(bytes.at("masters"), 0);
  EXPECT_EQ(bytes.at("total"), 5 * 4 * kElements + bytes.at("activations").get<int64_t>());
  EXPECT_EQ(found.at("sent_bytes").at("all_reduce"), 4 * kElements);  // 2 (P - 1) / P of each gradient
}

// ReLU saves its result, which the next layer saves too; SiLU saves its input beside that.
TEST_F(T5PlanCommand, CountsWhatATypeOfActivationSaves) {
  constexpr int64_t kOneWide = (2 + 3) * 4 * 16 * 4;  // bytes of one channel in all blocks
  EXPECT_EQ(activations("silu") - activations("relu"), 24 * kOneWide);
  EXPECT_EQ(activations("relu", 32) - activations("relu"), 8 * kOneWide);
  EXPECT_EQ(activations("silu", 32) - activations("silu"), 2 * 8 * kOneWide);
}

TEST_F(PlanCommand, TellsWhatTheStageNeedsThatNeedsMost) {
  const Words staged = {"--strategy", "torch_ddp", "-n", "2", "-o", "pp_size=2"};
  const nlohmann::json row = nlohmann::json::parse(expect_success(plan(Words{"--json"} + staged)).out).at(0);
  const nlohmann::json whole =
      nlohmann::json::parse(expect_success(plan({"--json", "--strategy", "torch_ddp", "-n", "1"})).out)[0];
  const auto elements = [](const nlohmann::json& of) {
    return of.at("bytes").at("parameters").get<int64_t>();
  };
  EXPECT_LT(row.at("stage").get<int>(), 2);
  EXPECT_LT(elements(row), elements(whole));
  EXPECT_GE(2 * elements(row), elements(whole));  // the tied embeddings are on both stages
  EXPECT_FALSE(whole.contains("stage"));
  const Output explained = expect_success(plan(Words{"--explain"} + staged));
  EXPECT_NE(explained.out.find("\nstage 1 "), std::string::npos) << explained.out;
  EXPECT_TRUE(refuses(plan({"--strategy", "torch_ddp", "-n", "64", "-o", "pp_size=64"}), kFailed,
                      {"units, but pp_size 64 needs 64"}));
}

// 5 samples in micro-batches of 4 are 4 and 1, not 3 and 2.
TEST_F(PlanCommand, CountsTheActivationsOfTheLargestMicroBatch) {
  const auto activations = [&](const char* samples, const char* option) {
    const Output output = expect_success(plan({"--json", "--strategy", "torch_ddp", "-n", "2", "-o",
                                               "pp_size=2", "--batch-size", samples, "-o", option}));
    return nlohmann::json::parse(output.out).at(0).at("bytes").at("activations").get<int64_t>();
  };
  EXPECT_EQ(activations("5", "microbatch_size=4"), activations("8", "microbatch_size=4"));
  EXPECT_EQ(activations("5", "num_microbatches=2"), activations("6", "microbatch_size=3"));
}

TEST_F(PlanCommand, ExplainsTheScheduleOfTheStages) {
  const auto explained = [&](const Words& options) {
    return expect_success(plan(Words{"--explain", "--strategy", "torch_ddp", "-o", "pp_size=2"} + options))
        .out;
  };
  const std::string plain = explained({"--batch-size", "6", "-o", "microbatch_size=2"});
  EXPECT_THAT(plain, testing::ContainsRegex("\nstage 0 [^\n]*\nstage 1 "));
  EXPECT_THAT(plain, testing::HasSubstr("1f1b: 2 stages, 3 micro-batches, 1 chunk a stage; bubble"));
  EXPECT_THAT(plain, testing::ContainsRegex("\n  0 [^\n]* 2  F0 F1 B0 F2 B1 B2\n"));
  EXPECT_THAT(plain, testing::ContainsRegex("\n  1 [^\n]* 1  F0 B0 F1 B1 F2 B2\n"));
  const std::string chunks = explained({"-o", "pp_style=interleaved", "-o", "num_microbatches=2"});
  EXPECT_THAT(chunks, testing::HasSubstr("interleaved: 2 stages, 2 micro-batches, 2 chunks a stage"));
  EXPECT_THAT(chunks,
              testing::ContainsRegex("\nstage 0 chunk 0 [^\n]*\nstage 1 chunk 0 [^\n]*\nstage 0 chunk 1 "));
  EXPECT_THAT(chunks, testing::ContainsRegex(
                          "\n  1 [^\n]*  F0[.]0 F1[.]0 F0[.]1 B0[.]1 F1[.]1 B1[.]1 B0[.]0 B1[.]0\n"));
  const std::string vee = explained({"-o", "pp_style=zbv", "-o", "num_microbatches=1"});
  EXPECT_THAT(vee, testing::ContainsRegex("\nstage 0 chunk 0 [^\n]*\nstage 1 chunk 0 [^\n]*\nstage 1 chunk 1 "
                                          "[^\n]*\nstage 0 chunk 1 "));
  EXPECT_THAT(vee, testing::ContainsRegex("\n  0 [^\n]*  F0[.]0 F0[.]1 I0[.]1 "));
}

TEST_F(PlanCommand, DrawsTheScheduleOfTheStages) {
  const Words staged = {"--strategy", "torch_ddp", "-o", "pp_size=2", "-o", "num_microbatches=3"};
  const auto picture = [&](const Words& more) {
    EXPECT_EQ(expect_success(plan(staged + Words{"--picture", in("schedule.svg")} + more)).out, "");
    return read_bytes(in("schedule.svg"));
  };
  const std::string plain = picture({}), all_forwards = picture({"-o", "pp_style=gpipe"});
  EXPECT_THAT(plain, testing::StartsWith("<svg "));
  EXPECT_THAT(plain, testing::HasSubstr("1f1b, 2 stages, 3 micro-batches"));
  EXPECT_THAT(plain, testing::HasSubstr("<title>B2: "));
  EXPECT_THAT(all_forwards, testing::HasSubstr("gpipe, 2 stages, 3 micro-batches"));
  EXPECT_NE(plain, all_forwards);
  EXPECT_TRUE(refuses(plan({"--picture", in("schedule.svg")}), kFailed,
                      {"--picture draws the schedule of pipeline stages, but pp_size is 1", "-o pp_size="}));
  EXPECT_TRUE(refuses(plan(staged + Words{"--picture", in("none/schedule.svg")}), kFailed,
                      {"--picture " + in("none/schedule.svg") + ": cannot write there: No such file"}));
}

// Beside --explain or --picture, any flag of the estimate asks for it.
TEST_F(PlanCommand, EstimatesBesideWhatElseItPrints) {
  EXPECT_THAT(expect_success(plan({"--explain"})).out, testing::Not(testing::HasSubstr("torch_fsdp")));
  EXPECT_THAT(expect_success(plan({"--explain", "--memory", "80GiB"})).out,
              testing::ContainsRegex("\ntorch_fsdp [^\n]* fits\n"));
}

TEST_F(PlanCommand, ExplainsTheLayersAndRanksOfTheStages) {
  const auto explained = [&](const Words& options) {
    return expect_success(plan(Words{"--explain", "--strategy", "torch_ddp", "-o", "pp_size=2"} + options))
        .out;
  };
  EXPECT_THAT(explained({"-o", "num_layers_per_stage=[0,2]"}),
              testing::HasSubstr("\nstage 0     prologue\nstage 1     h.0, h.1, epilogue\n"));
  EXPECT_THAT(explained({"-o", "num_layers_per_stage=[1,1]", "-o",
                         R"(gradient_checkpoint_config={"num_ckpt_layers_per_stage":[1,0]})"}),
              testing::HasSubstr("\nstage 0     prologue, h.0 (recomputed)\nstage 1     h.1, epilogue\n"));
  EXPECT_THAT(explained({"--recompute", "1"}), testing::HasSubstr("\nstage 0     prologue (recomputed)"));
  const Words eight = {"-o", "tp_size=2", "-n", "8"};
  EXPECT_THAT(explained(eight),
              testing::HasSubstr("ranks of stage 0: 0-1, 4-5\nranks of stage 1: 2-3, 6-7\n"));
  EXPECT_THAT(explained(eight + Words{"-o", "dp_outside=false"}),
              testing::HasSubstr("ranks of stage 0: 0-3\nranks of stage 1: 4-7\n"));
}

TEST_F(PlanCommand, RefusesRanksThatCannotBeDividedBeforeItPrints) {
  const Output output = weft_command(
      plan({"--explain", "--strategy", "torch_ddp", "-n", "6", "-o", "pp_size=2", "-o", "tp_size=2"}));
  EXPECT_EQ(output.exit_code, kFailed);
  EXPECT_EQ(output.out, "");
  EXPECT_THAT(output.error, testing::HasSubstr("tp_size 2 x pp_size 2 x sp_size 1 must divide the 6 ranks"));
}

TEST_F(PlanCommand, WritesAndReadsTheScheduleOfTheStages) {
  const Words staged = {"--strategy", "torch_ddp", "-o", "pp_size=2"};
  const std::string file = in("schedule.txt");
  EXPECT_EQ(expect_success(plan(staged + Words{"-o", "num_microbatches=3", "--schedule-file", file})).out,
            "");
  EXPECT_EQ(read_bytes(file), "# 1f1b: 2 stages, 3 micro-batches\nF0 F1 B0 F2 B1 B2\nF0 B0 F1 B1 F2 B2\n");
  const Words given = {"--explain", "-o", "schedule_file=" + file};
  const std::string explained = expect_success(plan(staged + given)).out;
  EXPECT_THAT(explained, testing::HasSubstr("schedule_file " + file + ": 2 stages, 3 micro-batches"));
  EXPECT_THAT(explained, testing::ContainsRegex("\n  0 [^\n]* 2  F0 F1 B0 F2 B1 B2\n"));
  std::ofstream(file) << "F0 F1 F2 B0 B1 B2; F0 B0 F1 B1 F2 B2";
  EXPECT_THAT(expect_success(plan(staged + given)).out,
              testing::ContainsRegex("\n  0 [^\n]* 3  F0 F1 F2 B0 B1 B2\n"));
  std::ofstream(file) << "F0 F1 B0 B1; F0 F1 B0";
  EXPECT_TRUE(refuses(plan(staged + given), kFailed, {"schedule_file " + file, "stage 1"}));
  EXPECT_TRUE(refuses(plan({"--schedule-file", file}), kFailed,
                      {"--schedule-file writes the schedule of pipeline stages, but pp_size is 1"}));
  EXPECT_TRUE(refuses(plan(staged + Words{"--schedule-file", in("none/schedule.txt")}), kFailed,
                      {"--schedule-file " + in("none/schedule.txt") + ": cannot write there: No such file"}));
  const Words chunks = {"-o", "pp_style=interleaved", "-o", "num_model_chunks=3"};
  EXPECT_TRUE(refuses(plan(staged + chunks + Words{"--schedule-file", in("chunks.txt")}), kFailed,
                      {"has 4 units, but pp_size 2 with 3 model chunks on each stage needs 6"}));
  EXPECT_FALSE(std::filesystem::exists(in("chunks.txt")));
}

TEST_F(PlanCommand, ExplainsWhatItSplits) {
  const Output output = expect_success(
      {"plan", "--model", config_, "--explain", "--strategy", "hybrid_parallel", "-o", "tp_size=2", "-o",
       "enable_sequence_parallelism=true", "-o", "sequence_parallelism_mode=split_gather"});
  EXPECT_NE(output.out.find("\nsplit       "), std::string::npos) << output.out;
  EXPECT_NE(output.out.find("ln_2"), std::string::npos) << output.out;
}

}  // namespace
}  // namespace weft::test
