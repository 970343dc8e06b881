// Runs the commands of sdk/docs/recipes.md with a few steps each: they work, and those that train the same
// under other layouts have the losses of the first one.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>

#include "command/command.hpp"
#include "support/png.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSteps = "3";

// What a training writes to --metrics.
struct Trained {
  std::vector<double> losses;
  double evaluation = 0;
};

class Recipes : public testing::Test {
 protected:
  Recipes() {
    for (const char* name : {"samples", "sdk", "README.md"})
      fs::create_symlink(fs::path(WEFT_SOURCE) / name, in(name));
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  // Returns the commands under a heading of the page. One that ends in a backslash goes on in the next line.
  static std::vector<std::string> commands(const std::string& heading) {
    std::ifstream page(fs::path(WEFT_SOURCE) / "sdk/docs/recipes.md");
    std::vector<std::string> found;
    bool inside = false, continued = false, fenced = false;
    for (std::string line; std::getline(page, line);) {
      if (line.starts_with("## ")) inside = line == "## " + heading;
      if (line.starts_with("```")) fenced = !fenced;
      if (!inside || fenced || !line.starts_with("    ")) continue;
      if (continued) found.back().pop_back();
      continued ? found.back() += line.substr(4) : found.emplace_back(line.substr(4));
      continued = line.ends_with('\\');
    }
    EXPECT_GT(found.size(), 2u) << heading;
    return found;
  }

  // Returns the command with a few steps.
  static std::string shortened(const std::string& command) {
    std::string text =
        std::regex_replace(command, std::regex("--(steps|epochs) \\d+"), "--steps " + std::string(kSteps));
    text = std::regex_replace(text, std::regex("--evaluate-every \\w+"),
                              "--evaluate-every " + std::string(kSteps));
    return std::regex_replace(text, std::regex("--warmup-steps \\d+"), "--warmup-steps 1");
  }

  void run(const std::string& command) const {
    const std::string path = fs::path(weft_program()).parent_path().string() + ":" + std::getenv("PATH");
    const Output output = launch::Process({"bash", "-c", "cd " + folder_.path() + " && " + command},
                                          {.environment = {{"PATH", path},
                                                           {"OMP_NUM_THREADS", "1"},
                                                           {"WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS}},
                                           .input = "",
                                           .error_fd = -1})
                              .finish();
    EXPECT_EQ(output.exit_code, 0) << command << "\n" << output.error;
  }

  Trained train(const std::string& command) const {
    run(shortened(command) + " --metrics steps.jsonl");
    Trained trained;
    if (!fs::exists(in("steps.jsonl"))) return trained;
    for (const nlohmann::json& line : read_metrics(in("steps.jsonl"))) {
      trained.losses.push_back(line.at("loss"));
      if (line.contains("evaluation")) trained.evaluation = line.at("evaluation").at("loss");
    }
    fs::remove(in("steps.jsonl"));
    EXPECT_EQ(trained.losses.size(), 3u) << command;
    return trained;
  }

  static void expect_near(const Trained& found, const Trained& wanted, double tolerance,
                          const std::string& command) {
    ASSERT_EQ(found.losses.size(), wanted.losses.size());
    for (size_t i = 0; i < wanted.losses.size(); ++i)
      EXPECT_NEAR(found.losses[i], wanted.losses[i], tolerance * wanted.losses[i]) << i << " of " << command;
    EXPECT_NEAR(found.evaluation, wanted.evaluation, tolerance * wanted.evaluation) << command;
  }

  // Runs a command. Those that read a file of --dump-config with --config must have the losses of the one
  // that wrote it, up to the rounding of their precision. Returns whether it was compared.
  bool runs(const std::string& command) {
    if (!command.starts_with("weft train")) {
      run(command);
      return false;
    }
    const Trained trained = train(command);
    std::smatch named;
    if (std::regex_search(command, named, std::regex("--dump-config (\\S+)"))) first_[named[1]] = trained;
    if (!std::regex_search(command, named, std::regex("--config (\\S+)"))) return false;
    const bool half = std::regex_search(command, std::regex("precision.(bf16|fp16)"));
    expect_near(trained, first_.at(named[1]), half ? 5e-3 : 2e-5, command);
    return true;
  }

  // Runs all commands under a heading. Returns how many were compared with another.
  int runs_section(const std::string& heading) {
    int compared = 0;
    for (const std::string& command : commands(heading)) {
      const auto begins = [&](const char* text) { return command.starts_with(text); };
      if (begins("samples/vit_digits/make_images"))  // which needs a network
        write_images();
      else if (!begins("cmake") && !begins("export"))  // the build has made what these make
        compared += runs(command) ? 1 : 0;
    }
    return compared;
  }

  // Trains what the sections about gradients train in other ways.
  void train_gpt2() {
    runs(commands("GPT-2 with tensor parallelism, pipeline stages and ZeRO").front());
    ASSERT_TRUE(first_.contains("gpt2.yaml"));
  }

  void write_images() const {
    constexpr size_t kSide = 8;
    for (size_t i = 0; i < 150; ++i) {
      std::vector<uint8_t> pixels;
      for (size_t at = 0; at < kSide * kSide; ++at)
        pixels.push_back(static_cast<uint8_t>((at * (7 + i) + at / 9 * 31 + i * i * 5) % 251));
      const std::string folder = "digits/" + std::to_string(i % 10);
      fs::create_directories(in(folder));
      folder_.file(folder + "/" + std::to_string(i) + ".png", png(pixels, kSide));
    }
  }

  TemporaryFolder folder_;
  std::map<std::string, Trained> first_;  // by the file of --dump-config
};

TEST_F(Recipes, Gpt2HasTheLossesOfOneRankUnderTensorPipelineAndZeroParallelism) {
  EXPECT_EQ(runs_section("GPT-2 with tensor parallelism, pipeline stages and ZeRO"), 3);
}

TEST_F(Recipes, VitHasTheLossesOfDataParallelismUnderHybridParallelism) {
  EXPECT_EQ(runs_section("ViT from data parallelism to hybrid parallelism"), 3);
}

TEST_F(Recipes, BertHasTheLossesOfOneRankWithRingAttention) {
  EXPECT_EQ(runs_section("BERT with ring attention"), 3);
}

TEST_F(Recipes, OptIsTrainedFineTunedAndAsked) {
  EXPECT_EQ(runs_section("OPT: train it, fine-tune it, ask it"), 2);
}

TEST_F(Recipes, GradientsOfMicroBatchesAreThoseOfTheBatch) {
  train_gpt2();
  EXPECT_EQ(runs_section("Gradient accumulation"), 3);
}

TEST_F(Recipes, GradientsAreClippedAlikeByTheHostAndTheStrategy) {
  EXPECT_EQ(runs_section("Gradient clipping"), 3);
  const double clipped = first_.at("clip.yaml").losses.back(),
               whole = train("weft train --config clip.yaml --max-grad-norm 0").losses.back();
  EXPECT_GT(std::abs(whole - clipped), 1e-2) << "something was clipped";
}

TEST_F(Recipes, GradientsThatAnOwnStrategySumsAreThoseOfOneRank) {
  train_gpt2();
  EXPECT_EQ(runs_section("Gradient handlers"), 1);
}

TEST_F(Recipes, HalfPrecisionHasTheLossesOfFullPrecisionUpToItsRounding) {
  EXPECT_EQ(runs_section("Mixed precision"), 3);
}

}  // namespace
}  // namespace weft::test
