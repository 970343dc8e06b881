// samples/resnet: a model with buffers, and batch normalisation over the samples of all ranks.
#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

struct Printed {
  std::vector<double> losses;  // of the steps
  std::string held_out;        // the last line
};

class ResnetSample : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  Words command(const std::string& ranks, const Words& more) const {
    return Words{"run",          "-n", ranks,     WEFT_RESNET, "--width", "4",
                 "--batch-size", "8",  "--steps", "6",         "--lr",    "0.05"} +
           more;
  }
  Printed run(const std::string& ranks, const Words& more) const {
    Printed printed;
    const Output output = expect_success(command(ranks, more));
    std::istringstream lines(output.out + output.error);
    for (std::string line; std::getline(lines, line);) {
      const size_t loss = line.find("loss ");
      if (loss == std::string::npos) continue;
      if (line.find("step ") != std::string::npos) printed.losses.push_back(std::stod(line.substr(loss + 5)));
      if (line.find("held out") != std::string::npos) printed.held_out = line.substr(line.find("held out"));
    }
    return printed;
  }
  // Expects that two ranks fail with a message that contains `text`.
  testing::AssertionResult refuses_run(const Words& more, const std::string& text) const {
    const Output output = weft_command(command("2", more));
    if (output.exit_code != 0 && output.error.find(text) != std::string::npos)
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << output.exit_code << "\n" << output.error;
  }
  static double held_out_loss(const Printed& printed) {
    return std::stod(printed.held_out.substr(printed.held_out.find("loss ") + 5));
  }
  static void expect_near(const Printed& found, const Printed& wanted) {
    ASSERT_EQ(found.losses.size(), wanted.losses.size());
    for (size_t i = 0; i < wanted.losses.size(); ++i)
      EXPECT_NEAR(found.losses[i], wanted.losses[i], 1e-5 * wanted.losses[i]) << i;
    EXPECT_NEAR(held_out_loss(found), held_out_loss(wanted), 1e-5 * held_out_loss(wanted));
  }

  TemporaryFolder folder_;
};

TEST_F(ResnetSample, HasTheLossesOfOneRankWithSharedStatistics) {
  const auto under = [](const std::string& strategy) {
    return Words{"--plain", "--sync", "--booster", "{\"precision\": \"fp64\", " + strategy + "}"};
  };
  const Printed alone = run("1", under(R"("strategy": "none")"));
  ASSERT_EQ(alone.losses.size(), 6u);
  for (const char* strategy : {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"}) {
    SCOPED_TRACE(strategy);
    expect_near(run("2", under(std::string("\"strategy\": \"") + strategy + "\"")), alone);
  }
  expect_near(run("2", under(R"("recompute": "all")")), alone);
  Words apart = under(R"("strategy": "torch_ddp")");
  std::erase(apart, "--sync");
  EXPECT_GT(std::abs(run("2", apart).losses.back() - alone.losses.back()), 1e-3);
}

TEST_F(ResnetSample, SavesItsBuffersAndGoesOnExactly) {
  for (const char* ranks : {"1", "2"}) {
    SCOPED_TRACE(ranks);
    const Printed whole = run(ranks, {"--sync", "--output", in("whole")});
    ASSERT_EQ(whole.losses.size(), 6u);
    const Printed part = run(ranks, {"--sync", "--stop", "4", "--output", in("part")});
    EXPECT_EQ(part.losses, std::vector<double>(whole.losses.begin(), whole.losses.begin() + 4));
    const Printed rest = run(ranks, {"--sync", "--resume", in("part"), "--output", in("rest")});
    EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + 4, whole.losses.end()));
    EXPECT_EQ(rest.held_out, whole.held_out);
    for (const char* file : {"/model.safetensors", "/training_state/part-00000.safetensors"})
      EXPECT_TRUE(read_bytes(in("rest") + file) == read_bytes(in("whole") + file)) << file;
    const RawTensors saved = read_safetensors(in("rest/model.safetensors"));
    EXPECT_EQ(saved.at("layer2.0.downsample.1.running_var").shape, (std::vector<int64_t>{8}));
    EXPECT_EQ(saved.at("bn1.running_mean").dtype, "F32");
    EXPECT_EQ(saved.at("bn1.num_batches_tracked").dtype, "I64");
    int64_t batches = 0;
    std::memcpy(&batches, saved.at("bn1.num_batches_tracked").bytes.data(), sizeof(batches));
    EXPECT_EQ(batches, 6);
    double moved = 0;
    for (const float mean : float_values(saved.at("layer1.0.bn1.running_mean"))) moved += std::abs(mean);
    EXPECT_GT(moved, 1e-4);
    for (const char* made : {"whole", "part", "rest"}) fs::remove_all(in(made));
  }
}

TEST_F(ResnetSample, ReadsTheFilesOfCifar10) {
  std::string records;
  for (int i = 0; i < 16; ++i) {
    records.push_back(static_cast<char>(i % 10));
    for (int at = 0; at < 3072; ++at) records.push_back(static_cast<char>((at * (i + 3)) % 251));
  }
  folder_.file("data_batch_1.bin", records);
  EXPECT_TRUE(refuses_run({"--data", folder_.path()}, "test_batch.bin"));
  folder_.file("test_batch.bin", records);
  EXPECT_EQ(run("2", {"--data", folder_.path(), "--sync"}).losses.size(), 6u);
  folder_.file("data_batch_2.bin", records + "x");
  EXPECT_TRUE(refuses_run({"--data", folder_.path()}, "data_batch_2.bin"));
}

// A stage would change the buffers of its own layers alone.
TEST_F(ResnetSample, IsRefusedInPipelineStages) {
  EXPECT_TRUE(refuses_run(
      {"--booster", R"({"strategy": "hybrid_parallel", "options": {"pp_size": 2, "num_microbatches": 2}})"},
      "buffers"));
}

}  // namespace
}  // namespace weft::test
