// Training with random changes of images: what they are for, and that neither ranks nor workers nor a resume
// change them.
#include <gmock/gmock.h>

#include <filesystem>

#include "command/command.hpp"
#include "support/png.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 8, kImages = 24;

class ImageChangesOfATraining : public CommandTest {
 protected:
  void SetUp() override {
    write_model("");
    std::vector<float> values;
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < kImages; ++i) {
      std::vector<uint8_t> pixels;
      for (int64_t at = 0; at < kSide * kSide; ++at) {
        pixels.push_back(static_cast<uint8_t>((at * (7 + i) + at / 9 * 31 + i * i * 5) % 251));
        values.push_back(static_cast<float>(pixels.back()) / 127.5F - 1);
      }
      labels.push_back(i % 3);
      fs::create_directories(in("images/" + std::to_string(i % 3)));
      folder_.file("images/" + std::to_string(i % 3) + "/" + std::to_string(100 + i) + ".png",
                   png(pixels, kSide));
    }
    folder_.file("tensors.safetensors",
                 safetensors_bytes({{"pixel_values", float_tensor({kImages, 1, kSide, kSide}, values)},
                                    {"labels", int64_tensor({kImages}, labels)}}));
  }
  void write_model(const std::string& more, int labels = 3) {
    vit_ = folder_.file("vit.json", R"({"model_type": "vit", "architectures": ["ViTForImageClassification"],
        "hidden_size": 12, "num_attention_heads": 2, "num_hidden_layers": 3, "intermediate_size": 20,
        "image_size": 8, "patch_size": 4, "num_channels": 1)" +
                                        more + ", \"num_labels\": " + std::to_string(labels) + "}");
  }
  Words training(const std::string& data, const Words& more) const {
    return Words{"train", "--model", vit_,           "--data", in(data),    "--steps", "8",
                 "--lr",  "0.01",    "--batch-size", "8",      "--metrics", in("m"),   "--no-shuffle"} +
           more;
  }
  std::vector<double> losses(const std::string& data, const Words& more) const {
    expect_success(training(data, more));
    std::vector<double> losses;
    for (const nlohmann::json& line : read_metrics(in("m")))
      if (line.contains("loss")) losses.push_back(line.at("loss"));
    return losses;
  }
  static void expect_near(const std::vector<double>& found, const std::vector<double>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5 * wanted[i]);
  }

  std::string vit_;
};

TEST_F(ImageChangesOfATraining, AreRefusedForWhatTheyAreNotFor) {
  EXPECT_TRUE(refuses(train({"--mixup", "0.2"}), 1, {"--mixup is for images and tensors", "data.txt"}));
  EXPECT_TRUE(refuses(training("tensors.safetensors", {"--auto-augment", "randaugment"}), 1,
                      {"--auto-augment is for images", "tensors.safetensors"}));
  EXPECT_TRUE(
      refuses(training("images", {"--auto-augment", "augmix"}), 1, {"--auto-augment", "randaugment"}));
  EXPECT_TRUE(refuses(training("images", {"--crop-padding", "2", "--random-crop", "0.5"}), 1,
                      {"--crop-padding", "--random-crop"}));
  EXPECT_TRUE(refuses(training("images", {"--random-erasing", "1.5"}), 1, {"--random-erasing"}));
  folder_.file("ids.safetensors", safetensors_bytes(language_samples(4, 8)));
  EXPECT_TRUE(
      refuses({"train", "--model", config_, "--data", in("ids.safetensors"), "--cutmix", "1", "-n", "2"}, 1,
              {"--cutmix", "GPT2LMHeadModel"}));
  EXPECT_TRUE(refuses({"evaluate", "--model", vit_, "--data", in("images"), "--mixup", "1"}, 2, {"--mixup"}));
  write_model(R"(, "problem_type": "regression")", 1);
  EXPECT_TRUE(refuses(training("tensors.safetensors", {"--mixup", "1", "-n", "2"}), 1, {"0 to 0", "labels"}));
}

TEST_F(ImageChangesOfATraining, AreThoseOfTheSampleOnAnyRanksAndWorkersAndAfterAResume) {
  const Words folder = {"--auto-augment",
                        "autoaugment_cifar10",
                        "--crop-padding",
                        "2",
                        "--flip",
                        "--random-erasing",
                        "0.5",
                        "--mixup",
                        "0.4",
                        "--cutmix",
                        "1"};
  const Words tensors = {"--crop-padding", "2", "--flip", "--random-erasing", "0.5", "--cutmix", "1"};
  for (const auto& [data, changes] : {std::pair("images", folder), {"tensors.safetensors", tensors}}) {
    SCOPED_TRACE(data);
    const std::vector<double> plain = losses(data, {}), alone = losses(data, changes);
    ASSERT_EQ(alone.size(), 8u);
    EXPECT_NE(alone.front(), plain.front());
    EXPECT_EQ(losses(data, changes + Words{"--workers", "2"}), alone);
    expect_near(losses(data, changes + Words{"-n", "2"}), alone);
    expect_success(training(data, changes + Words{"--output", in("out"), "--save-every", "3"}));
    fs::remove(in("m"));
    const std::vector<double> rest = losses(data, changes + Words{"--resume", in("out/step-3")});
    EXPECT_EQ(rest, std::vector<double>(alone.end() - static_cast<int64_t>(rest.size()), alone.end()));
    EXPECT_EQ(rest.size(), 5u);
    fs::remove_all(in("out"));
  }
}

TEST_F(ImageChangesOfATraining, AreLeftOutOfItsEvaluations) {
  const Words still = {"--lr", "0", "--held-out", "0.25", "--evaluate-every", "8", "--strategy", "none"};
  const auto loss = [&](const Words& changes) {
    Words words = training("images", still + changes);
    words.erase(std::find(words.begin(), words.end(), "--lr"),
                std::find(words.begin(), words.end(), "--lr") + 2);
    expect_success(words);
    return read_metrics(in("m")).back().at("evaluation").at("loss").get<double>();
  };
  const double plain = loss({});
  EXPECT_EQ(loss({"--auto-augment", "randaugment", "--crop-padding", "2", "--flip", "--random-erasing", "0.9",
                  "--mixup", "0.5"}),
            plain);
  EXPECT_EQ(loss({"--cutmix", "1", "--label-smoothing", "0.1"}), plain);
}

TEST_F(ImageChangesOfATraining, LeaveOutTheSameBranchesOnRanksThatShareSamples) {
  write_model(R"(, "drop_path_rate": 1.0)");
  EXPECT_TRUE(refuses(training("images", {}), 1, {"\"drop_path_rate\" is 1"}));
  const std::vector<double> plain = [&] {
    write_model("");
    return losses("images", {});
  }();
  write_model(R"(, "drop_path_rate": 0.6)");
  const std::vector<double> alone = losses("images", {});
  EXPECT_NE(alone.front(), plain.front());
  const auto hybrid = [](const char* option) {
    return Words{"--strategy", "hybrid_parallel", "-n", "2", "-o", option};
  };
  expect_near(losses("images", hybrid("tp_size=2")), alone);
  expect_near(losses("images", hybrid("tp_size=2") + Words{"--recompute", "all"}), alone);
  EXPECT_EQ(losses("images", {"--drop-path", "0"}), plain);
  write_model("");
  EXPECT_EQ(losses("images", {"--drop-path", "0.6", "--output", in("out")}), alone);
  EXPECT_EQ(nlohmann::json::parse(read_bytes(in("out/config.json"))).at("drop_path_rate"), 0.6);
}

TEST_F(ImageChangesOfATraining, RefuseADropPathThatLeavesOutNothing) {
  EXPECT_TRUE(refuses(train({"--drop-path", "0.1", "-n", "2"}), 1, {"--drop-path 0.1", "GPT2LMHeadModel"}));
  EXPECT_TRUE(refuses(train({"--drop-path", "0"}), 1, {"--drop-path 0", "GPT2LMHeadModel"}));
  EXPECT_TRUE(refuses(training("images", {"--drop-path", "1"}), 1, {"drop_path_rate"}));
  EXPECT_TRUE(refuses(training("images", {"--drop-path", "-0.1"}), 1, {"--drop-path"}));
  std::string one = read_bytes(vit_);
  one.replace(one.find("\"num_hidden_layers\": 3"), 22, "\"num_hidden_layers\": 1");
  vit_ = folder_.file("vit.json", one);
  EXPECT_TRUE(refuses(training("images", {"--drop-path", "0.1"}), 1, {"ViTForImageClassification"}));
}

}  // namespace
}  // namespace weft::test
