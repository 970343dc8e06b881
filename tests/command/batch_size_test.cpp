// `weft train --auto-batch-size`.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/text.hpp"
#include "command/command.hpp"

namespace weft::test {
namespace {

class AutoBatchSize : public CommandTest {
 protected:
  AutoBatchSize() {
    config_ = folder_.file("config.json", config_json({.positions = 64, .dropout = 0.1}));
    data_ = folder_.file("data.txt", sample_text(200 * 64));
  }

  struct Run {
    std::vector<double> losses;
    int64_t peak = 0;   // bytes of a rank
    int64_t batch = 0;  // samples, as the first line says
  };
  // Trains three steps. The second one is the first with states of the optimizer.
  Run run(const Words& more) const {
    std::filesystem::remove(in("m"));
    const Output output = expect_success(train(Words{"--steps", "3", "--metrics", in("m")} + more));
    Run found;
    for (const nlohmann::json& line : read_metrics(in("m"))) {
      found.losses.push_back(line.at("loss"));
      found.peak = std::max(found.peak, line.at("peak_memory_bytes").get<int64_t>());
    }
    const std::string before = "3 steps of ";
    const size_t at = output.error.find(before);
    if (at != std::string::npos) found.batch = std::atoll(output.error.c_str() + at + before.size());
    return found;
  }
};

TEST_F(AutoBatchSize, FitsWhereOneMoreSampleDoesNot) {
  const struct {
    Words words;
    int64_t parts;  // of which a batch has the same number of samples each
  } layouts[] = {{{"--strategy", "none"}, 1},
                 {{"--strategy", "none", "--ema", "0.9"}, 1},
                 {{"--strategy", "torch_fsdp", "-n", "2"}, 2},
                 {{"--strategy", "none", "--accumulate", "2"}, 2},
                 {{"--strategy", "hybrid_parallel", "-n", "2", "-o", "tp_size=2"}, 1},
                 {{"--strategy", "hybrid_parallel", "-n", "2", "-o", "pp_size=2"}, 2}};
  for (const auto& [words, parts] : layouts) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(words, " ")));
    const int64_t memory = run(words + Words{"--batch-size", std::to_string(11 * parts)}).peak + 1000;
    const Run found = run(words + Words{"--auto-batch-size", "--memory", std::to_string(memory)});
    EXPECT_EQ(found.batch, 11 * parts);
    EXPECT_LE(found.peak, memory);
    const Run given = run(words + Words{"--batch-size", std::to_string(found.batch)});
    EXPECT_EQ(found.losses, given.losses) << "the search changes nothing";
    const int64_t of_one_more = run(words + Words{"--batch-size", std::to_string(12 * parts)}).peak;
    EXPECT_GT(of_one_more, memory);
    const Words less = {"--auto-batch-size", "--memory", std::to_string(of_one_more - 4096)};
    EXPECT_EQ(run(words + less).batch, 11 * parts) << "the states of the optimizer count";
  }
}

TEST_F(AutoBatchSize, GoesAsFarAsTheData) {
  EXPECT_EQ(run({"--strategy", "none", "--auto-batch-size"}).batch, 200) << "the memory of a host is enough";
}

TEST_F(AutoBatchSize, IsRefusedWhereNothingFits) {
  EXPECT_TRUE(refuses(train({"--steps", "1", "--auto-batch-size", "--memory", "10KiB"}), 1, {"10240"}));
  EXPECT_TRUE(
      refuses(train({"--steps", "1", "--auto-batch-size", "--batch-size", "4"}), 1, {"--batch-size"}));
  EXPECT_TRUE(refuses(train({"--steps", "1", "--memory", "1GiB"}), 1, {"--auto-batch-size"}));
}

}  // namespace
}  // namespace weft::test
