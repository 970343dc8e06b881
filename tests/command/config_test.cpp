// --config and --dump-config: options in a file, typed by their declaration, and what a job was told.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.hpp"
#include "command/command.hpp"

namespace weft::test {
namespace {

constexpr int kUsage = 2;

class ConfigFile : public CommandTest {
 protected:
  // Writes a file that trains the sample, with more lines.
  std::string write(const std::string& name, const std::string& more) const {
    return folder_.file(name, "model: " + config_ + "\ndata: " + data_ + "\nsequence_length: 32\n" + more);
  }
  // Returns the loss of the last step of a job that writes metrics to a file.
  double last_loss(const Words& words) const {
    const std::string metrics = in("metrics.jsonl");
    std::filesystem::remove(metrics);
    expect_success(words + Words{"--metrics", metrics});
    const std::vector<nlohmann::json> lines = read_metrics(metrics);
    return lines.empty() ? -1 : lines.back().at("loss").get<double>();
  }
};

TEST_F(ConfigFile, TrainsAsTheFlagsDo) {
  const std::string file = write("job.yaml",
                                 "strategy: torch_ddp\n"
                                 "options: {bucket_cap_mb: 1, static_graph: no}\n"
                                 "steps: 3   # of them\n"
                                 "batch_size: 4\n"
                                 "lr: 1e-2\n"
                                 "betas: [0.8, 0.9]\n"
                                 "seed: 7\n"
                                 "no_shuffle: true\n");
  const double loss = last_loss({"train", "--config", file, "-n", "2"});
  EXPECT_EQ(loss, last_loss({"train",
                             "--model",
                             config_,
                             "--data",
                             data_,
                             "--sequence-length",
                             "32",
                             "--strategy",
                             "torch_ddp",
                             "-o",
                             "bucket_cap_mb=1",
                             "--steps",
                             "3",
                             "--batch-size",
                             "4",
                             "--lr",
                             "1e-2",
                             "--betas",
                             "0.8,0.9",
                             "--seed",
                             "7",
                             "--no-shuffle",
                             "-n",
                             "2"}));
  EXPECT_NE(loss, last_loss({"train", "--config", file, "-n", "2", "--lr", "0.1"}));  // flags win
}

TEST_F(ConfigFile, HasTheNumberOfRanksAndJson) {
  const std::string file = folder_.file("job.json", nlohmann::json({{"model", config_},
                                                                    {"data", {data_}},
                                                                    {"sequence_length", 32},
                                                                    {"strategy", "torch_ddp"},
                                                                    {"nproc_per_node", 2},
                                                                    {"steps", 1},
                                                                    {"mixed_precision", nullptr},
                                                                    {"lr", 1e-3}})
                                                        .dump(2));
  EXPECT_NE(expect_success({"train", "--config", file}).error.find("2 ranks, strategy torch_ddp, 1 steps"),
            std::string::npos);
}

TEST_F(ConfigFile, IsTurnedOffByAFlag) {
  const std::string file = write("job.yaml", "strategy: none\nsteps: 1\nflip: true\nno_shuffle: off\n");
  EXPECT_TRUE(refuses({"train", "--config", file}, 1, {"--flip is for images"}));
  expect_success({"train", "--config", file, "--flip=false"});
}

TEST_F(ConfigFile, FlagsReplaceWhatTheyExclude) {
  const std::string file = write("job.yaml", "strategy: none\nepochs: 50\n");
  EXPECT_NE(expect_success({"train", "--config", file, "--steps", "1"}).error.find("1 steps"),
            std::string::npos);
}

TEST_F(ConfigFile, IsRefusedWithTheLine) {
  struct Case {
    std::string name, more;
    std::vector<std::string> pieces;
  };
  const Case cases[] = {
      {"job.yaml", "batch_sise: 4\n", {"job.yaml:4: batch_sise", "did you mean \"batch_size\"?"}},
      {"job.yaml", "steps: 0x10\n", {"job.yaml:4: steps is \"0x10\""}},
      {"job.yaml", "steps: [3]\n", {"job.yaml:4: steps", "one value"}},
      {"job.yaml", "steps: 0\n", {"job.yaml:4: steps is 0", "at least 1"}},
      {"job.yaml", "flip: maybe\n", {"job.yaml:4: flip is \"maybe\"", "true or false"}},
      {"job.yaml", "packing: streem\n", {"job.yaml:4: packing is \"streem\"", "documents, stream, none"}},
      {"job.yaml", "lr: 1\nseed: 1\nlr: 2\n", {"job.yaml:6: lr is given twice, first in line 4"}},
      {"job.yaml", "lr: &rate 1\n", {"job.yaml:4: an anchor"}},
      {"job.yaml", "lr: *rate\n", {"job.yaml:4: "}},
      {"job.yaml", "lr: !!float 1\n", {"job.yaml:4: a tag"}},
      {"job.yaml", "---\nlr: 1\n", {"job.yaml:", "second document"}},
      {"job.yaml", "lr: [1\n", {"job.yaml:", "not YAML"}},
      {"job.yaml", "options: [a=1]\n", {"job.yaml:4: options", "a map"}},
      {"job.yaml", "config: other.yaml\n", {"job.yaml:4: config"}},
      {"job.yaml", "booster: booster.json\n", {"job.yaml:4: booster"}},
  };
  for (const Case& one : cases)
    EXPECT_TRUE(refuses({"train", "--config", write(one.name, one.more)}, kUsage, one.pieces)) << one.more;
  EXPECT_TRUE(refuses({"train", "--config", folder_.file("a.json", "{\n\"lr\": 1,\n\"lr\": 2}")}, kUsage,
                      {"a.json:3: lr is given twice, first in line 2"}));
  EXPECT_TRUE(refuses({"train", "--config", folder_.file("b.json", "{\n\"lr\": ]}")}, kUsage,
                      {"b.json:2: not JSON"}));
  EXPECT_TRUE(refuses({"train", "--config", folder_.file("c.json", "[1]")}, kUsage, {"must have options"}));
  EXPECT_TRUE(refuses({"train", "--config", in("absent.yaml")}, 1, {"absent.yaml"}));
  EXPECT_TRUE(refuses({"train", "--config", write("d.yaml", ""), "--booster", "b.json"}, kUsage,
                      {"--config", "--booster", "exclude each other"}));
  EXPECT_TRUE(
      refuses({"train", "--config", folder_.file("e.yaml", std::string(70'000, '#'))}, 1, {"e.yaml"}));
}

TEST_F(ConfigFile, RepeatsTheJobThatSavedIt) {
  const Words words =
      train({"--strategy", "torch_ddp", "--steps", "3", "--lr", "0.01", "-o", "bucket_cap_mb=2",
             "--optimizer", "sgd", "--optimizer-option", "nesterov=true", "--momentum", "0.5"});
  const double loss = last_loss(words + Words{"--output", in("out"), "--dump-config", in("all.yaml")});
  const std::string saved = in("out") + "/training_state/job.yaml";
  EXPECT_EQ(loss, last_loss({"train", "--config", saved, "--steps", "3"}));
  const std::string text = read_file(saved, 1 << 20), all = read_file(in("all.yaml"), 1 << 20);
  for (const char* name : {"output", "steps", "resume", "metrics", "nproc_per_node", "dump_config"})
    EXPECT_EQ(text.find(std::string("\n") + name + ":"), std::string::npos) << name;
  EXPECT_NE(all.find("\nsteps: 3\n"), std::string::npos) << all;
  EXPECT_NE(text.find("\nstrategy: \"torch_ddp\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\ndevice: \"cpu\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n# accumulate: 1\n"), std::string::npos) << text;
}

TEST_F(ConfigFile, HasWhatStandsInTheFileOfTheBooster) {
  const std::string booster = folder_.file(
      "booster.json", R"({"strategy": "torch_ddp", "options": {"bucket_cap_mb": 3}, "seed": 5})");
  const std::string dumped = in("job.json");
  const double loss = last_loss(train({"--booster", booster, "--steps", "2", "--dump-config", dumped}));
  const nlohmann::json config = nlohmann::json::parse(read_file(dumped, 1 << 20));
  EXPECT_EQ(config.at("options").at("bucket_cap_mb"), 3);
  EXPECT_EQ(config.at("seed"), 5);
  EXPECT_EQ(loss, last_loss({"train", "--config", dumped}));
}

TEST_F(ConfigFile, IsComparedByRanksThatReadFilesOfTheirOwn) {
  for (const char* rank : {"0", "1"})
    write(std::string("job") + rank + ".yaml",
          std::string("strategy: torch_ddp\nsteps: 1\nlr: 0.") + rank + "\n");
  const std::string words =
      std::string("exec ") + WEFT_PROGRAM + " train --config " + in("job") + "$RANK.yaml";
  EXPECT_TRUE(refuses({"run", "-n", "2", "sh", "-c", words}, 1, {"--lr: rank 0 has 0.0, rank 1 has 0.1"}));
}

}  // namespace
}  // namespace weft::test
