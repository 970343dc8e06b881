// `weft train` on ranks that do not have the same flags, files or data, and under strategies that do not
// keep them alike: each fails at once, on every rank, naming what differs and which ranks.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

constexpr int kFailed = 1;

class Agreement : public CommandTest {
 protected:
  // Two ranks with these words; $RANK stands for the rank.
  static Words on_two_ranks(const std::string& flags) {
    return {"run", "-n", "2", "sh", "-c", std::string("exec ") + WEFT_PROGRAM + " " + flags};
  }
  std::string train_with(const std::string& flags) const {
    return "train --model " + config_ + " --data " + data_ + " " + flags;
  }
  testing::AssertionResult differs(const std::string& flags, const std::vector<std::string>& pieces) const {
    std::vector<std::string> all = pieces;
    all.emplace_back("ranks 0 and 1");
    return refuses(on_two_ranks(flags), kFailed, all);
  }
};

TEST_F(Agreement, FailsWhenFlagsDiffer) {
  EXPECT_TRUE(differs(train_with("--steps $((RANK+1))"), {"--steps: rank 0 has 1, rank 1 has 2"}));
  EXPECT_TRUE(differs(train_with("--steps 1 --metrics " + in("m") + "$RANK"),
                      {"--metrics: rank 0 has " + in("m") + "0, rank 1 has " + in("m") + "1"}));
  EXPECT_TRUE(differs(train_with("--steps 1 $([ $RANK = 1 ] || echo --metrics " + in("m") + ")"),
                      {"--metrics: rank 0 has " + in("m") + ", rank 1 has none"}));
  EXPECT_TRUE(differs(train_with("--steps 1 --tensorboard " + in("events") + "$RANK"),
                      {"--tensorboard: rank 0 has " + in("events") + "0, rank 1 has " + in("events") + "1"}));
  EXPECT_FALSE(fs::exists(in("events0")));
  EXPECT_TRUE(differs(train_with("--steps 1 $([ $RANK = 0 ] || echo --output " + in("out") + ")"),
                      {"--output: rank 0 has none, rank 1 has " + in("out")}));
  EXPECT_FALSE(fs::exists(in("out")));
  EXPECT_TRUE(differs(train_with("--steps 1 $([ $RANK = 0 ] || echo --resume " + in("out") + ")"),
                      {"--resume: rank 0 has none, rank 1 has " + in("out")}));
  EXPECT_TRUE(differs(train_with("--steps 4 --output " + in("out") + " --save-every $((RANK+1))"),
                      {"--save-every: rank 0 has 1, rank 1 has 2"}));
  EXPECT_TRUE(differs(train_with("--steps 1 -o bucket_cap_mb=$((RANK+1))"),
                      {"-o 0: rank 0 has bucket_cap_mb=1, rank 1 has bucket_cap_mb=2"}));
  EXPECT_TRUE(differs(train_with("--steps 1 --optimizer-option eps=0.$((RANK+1))"),
                      {"--optimizer-option 0: rank 0 has eps=0.1, rank 1 has eps=0.2"}));
  EXPECT_TRUE(
      differs("$([ $RANK = 0 ] && echo train || echo evaluate) --model " + config_ + " --data " + data_,
              {"verb: rank 0 has train, rank 1 has evaluate"}));
}

TEST_F(Agreement, HoldsWhenOnlyPathsDiffer) {
  for (const char* name : {"/config.json", "/data.txt"})
    for (const char* rank : {"0", "1"}) fs::copy(folder_.path() + name, folder_.path() + name + rank);
  expect_success(on_two_ranks("train --model " + config_ + "$RANK --data " + data_ + "$RANK --steps 2"));
}

TEST_F(Agreement, FailsWhenDataOfTheSameLengthDiffer) {
  const std::string text = sample_text(17 * 32 + 5);
  folder_.file("data0", text);
  std::string last = text;
  last[16 * 32 + 1] = 'X';  // in the last sample alone
  for (const std::string& other : {sample_text(17 * 32 + 5, 2), last}) {
    folder_.file("data1", other);
    EXPECT_TRUE(differs(
        "train --model " + config_ + " --steps 1 --data " + in("data") + "$RANK",
        {"data content: rank 0 has ", "(in " + in("data0") + "), rank 1 has ", "(in " + in("data1") + ")"}));
  }
  const RawTensors samples = language_samples(8, 6);
  RawTensors others = samples;
  others["labels"].bytes[8 * 20] ^= 1;
  folder_.file("0.safetensors", safetensors_bytes(samples));
  folder_.file("1.safetensors", safetensors_bytes(others));
  EXPECT_TRUE(differs("train --model " + config_ + " --steps 1 --data " + in("") + "$RANK.safetensors",
                      {"data content: rank 0 has ", "0.safetensors", "1.safetensors"}));
}

TEST_F(Agreement, FailsWhenDataToEvaluateOnDiffer) {
  folder_.file("data0", sample_text(900));
  folder_.file("data1", sample_text(900, 2));
  EXPECT_TRUE(differs("evaluate --model " + config_ + " --data " + in("data") + "$RANK",
                      {"data: rank 0 has ", "(in " + in("data0") + "), rank 1 has "}));
}

TEST_F(Agreement, FailsWhenOneRankLacksTheData) {
  const std::string one = in("none") + "$RANK";
  folder_.file("none0", sample_text(900));
  EXPECT_TRUE(
      refuses(on_two_ranks("train --model " + config_ + " --steps 1 --data " + one), kFailed, {in("none1")}));
}

TEST_F(Agreement, FailsWhenPromptsDiffer) {
  copy_trained_model();
  const Words generate = {"run",
                          "-n",
                          "2",
                          "sh",
                          "-c",
                          "cd " + in("rank") + "$RANK && exec " + WEFT_PROGRAM +
                              " generate --strategy torch_ddp --model " + in("out") +
                              " --prompts prompts --max-new-tokens 1"};
  fs::create_directory(in("rank0"));
  fs::create_directory(in("rank1"));
  folder_.file("rank0/prompts", "{\"prompt\": \"a\"}\n");
  EXPECT_TRUE(refuses(generate, kFailed, {"--prompts", "read prompts"}));
  folder_.file("rank1/prompts", "{\"prompt\": \"b\"}\n");
  EXPECT_TRUE(refuses(generate, kFailed, {"prompts: rank 0 has ", "ranks 0 and 1", "alike"}));
}

// A folder with weights for each rank, which differ.
class UnlikeWeights : public Agreement {
 protected:
  void SetUp() override {
    copy_trained_model();
    fs::copy(in("out"), in("model0"), fs::copy_options::recursive);
    fs::copy(in("out"), in("model1"), fs::copy_options::recursive);
  }
  // Changes one number of a tensor on rank 1.
  void change(const std::string& tensor, size_t element) const {
    RawTensors tensors = read_safetensors(in("out/model.safetensors"));
    std::vector<float> values = float_values(tensors.at(tensor));
    values.at(element) += 1;
    tensors[tensor] = float_tensor(tensors.at(tensor).shape, values);
    folder_.file("model1/model.safetensors", safetensors_bytes(tensors));
  }
  std::string train_on(const std::string& more) const {
    return "train --model " + in("model") + "$RANK --data " + data_ + " --steps 1 --output " + in("saved") +
           " " + more;
  }
};

TEST_F(UnlikeWeights, AreRefusedUnderEveryDivision) {
  for (const char* tensor : {"transformer.wte.weight", "transformer.ln_f.bias"})
    for (const char* strategy : {"torch_ddp", "torch_fsdp"}) {
      change(tensor, 5);
      EXPECT_TRUE(differs(train_on(std::string("--strategy ") + strategy),
                          {"weights: rank 0", "with content", "(in " + in("model0") + ")", "rank 1",
                           "with content", "(in " + in("model1") + ")"}));
    }
  fs::remove(in("model1/model.safetensors"));
  EXPECT_TRUE(differs(train_on(""), {"weights: rank 0", "a checkpoint", "rank 1", "initial values"}));
  EXPECT_FALSE(fs::exists(in("saved")));
}

// FSDP's option takes what rank 0 has, which may then be the only one with a file.
TEST_F(UnlikeWeights, AreThoseOfRank0WithSyncModuleStates) {
  const Words alone = {"train", "--model", in("model0"), "--data",  data_,        "--steps", "1",
                       "--lr",  "1e-30",   "--output",   in("one"), "--strategy", "none"};
  expect_success(alone);
  const RawTensors expected = read_safetensors(in("one/model.safetensors"));
  const auto expect_those_of_rank_0 = [&] {
    expect_success(on_two_ranks(train_on("--lr 1e-30 --strategy torch_fsdp -o sync_module_states=true")));
    for (const auto& [name, tensor] : read_safetensors(in("saved/model.safetensors")))
      EXPECT_EQ(tensor.bytes, expected.at(name).bytes) << name;
  };
  change("transformer.wte.weight", 5);
  expect_those_of_rank_0();
  fs::remove(in("model1/model.safetensors"));
  expect_those_of_rank_0();
}

TEST_F(UnlikeWeights, InAFolderToResumeFromAreRefused) {
  change("transformer.wte.weight", 5);
  const std::string flags = "train --model " + config_ + " --data " + data_ + " --steps 21 --resume model";
  const auto resumed = [&](const std::string& strategy) {
    // One path, another folder on each rank.
    const std::string own = in("rank") + "$RANK";
    return Words{"run",
                 "-n",
                 "2",
                 "sh",
                 "-c",
                 "mkdir -p " + own + " && cd " + own + " && ln -sfn ../model$RANK model && exec " +
                     WEFT_PROGRAM + " " + flags + " --strategy " + strategy};
  };
  for (const char* strategy : {"torch_ddp", "torch_fsdp"})
    EXPECT_TRUE(refuses(resumed(strategy), kFailed, {"rank 1", "not those"}));
  fs::remove_all(in("model1"));
  fs::copy(in("out"), in("model1"), fs::copy_options::recursive);
  expect_success(resumed("torch_ddp"));
}

class MistakenStrategy : public Agreement {
 protected:
  // Two ranks that find the test's plugins.
  Words mistaken(const std::string& mistake, const Words& more) const {
    return Words{"run",       "-n", "2", "env", std::string("WEFT_PLUGIN_ADD_PATH=") + WEFT_TEST_PLUGINS,
                 WEFT_PROGRAM} +
           train(Words{"--strategy", "mistaken", "-o", "mistake=" + mistake} + more);
  }
};

TEST_F(MistakenStrategy, FailsTheCommand) {
  for (const char* mistake : {"never reduces", "averages", "keeps gradients", "publishes copies"})
    EXPECT_TRUE(
        refuses(mistaken(mistake, {"--steps", "4", "--output", in("out")}), kFailed, {"mistaken: the "}));
  EXPECT_FALSE(fs::exists(in("out")));
  EXPECT_TRUE(refuses(mistaken("averages", {"-o", "from_step=3", "--steps", "8", "--check-agreement", "4"}),
                      kFailed, {"mistaken", "published gradient", "about 0.50 of it"}));
  expect_success(mistaken("averages", {"--steps", "4", "--check-agreement", "-1"}));
  expect_success(mistaken("none", {"--steps", "4", "--check-agreement", "1", "--output", in("out")}));
}

// What is wrong from a later step on is found before it is saved under the name of the output.
TEST_F(MistakenStrategy, SavesUnverifiedWhatItFindsWrongBeforeASave) {
  const std::string out = in("out"), unverified = in("out.unverified");
  const auto steps_in = [](const std::string& folder) {
    return nlohmann::json::parse(read_bytes(folder + "/training_state/state.json")).at("step").get<int>();
  };
  const auto late = [&](const Words& more) {
    return mistaken("averages", Words{"-o", "from_step=3", "--output", out} + more);
  };
  expect_success(mistaken("none", {"--steps", "2", "--output", out}));
  const auto fails = [&](const Words& words, const std::string& reason) {
    const Output output = weft_command(words);
    EXPECT_EQ(output.exit_code, kFailed) << output.error;
    EXPECT_THAT(output.error, testing::HasSubstr("saved " + unverified + " after step"));
    EXPECT_THAT(output.error, testing::HasSubstr(reason));
  };
  fails(late({"--resume", out, "--steps", "6"}), "about 0.50 of it");
  EXPECT_EQ(steps_in(out), 2) << "the older checkpoint stays";
  EXPECT_EQ(steps_in(unverified), 5);
  expect_success(mistaken("none", {"--resume", unverified, "--steps", "6"}));
  fs::remove_all(out);
  EXPECT_TRUE(refuses(train({"--resume", out, "--steps", "7"}), kFailed, {"no training_state/ there"}));
  fs::remove_all(unverified);

  fails(late({"--steps", "8", "--save-every", "4"}), "about 0.50 of it");
  EXPECT_EQ(steps_in(unverified), 3);
  EXPECT_FALSE(fs::exists(out));
  fs::remove_all(unverified);

  fails(mistaken("drifts", {"-o", "from_step=3", "--steps", "5", "--output", out + "/"}),
        "is not the same on the ranks");
  EXPECT_FALSE(fs::exists(out));
  expect_success(late({"--steps", "5", "--check-agreement", "-1"}));
}

// Both ranks are named, or Gloo would end one of them with a line of its own.
TEST_F(MistakenStrategy, IsNamedWhereItsCollectivesDoNotMatch) {
  EXPECT_TRUE(
      refuses(mistaken("sums less", {"--steps", "4"}), kFailed,
              {"mistaken: in end_backward", "rank 0", "rank 1", "all_reduce of ", "of this communicator"}));
  EXPECT_TRUE(refuses(mistaken("sends", {"--steps", "4"}), kFailed,
                      {"mistaken: in end_backward", "all_reduce of ", "broadcast of "}));
}

TEST_F(MistakenStrategy, IsNamedWhereAnUncheckedCollectiveEndsTheProcess) {
  EXPECT_TRUE(refuses(mistaken("sums less", {"-o", "from_step=4", "--steps", "6"}), kFailed,
                      {"in step 4", "mistaken: in end_backward", "all_reduce of ", "another size"}));
}

TEST_F(MistakenStrategy, IsToldWhereAndWhenItMayCall) {
  const auto checked = [&](const char* mistake) {
    Words words = mistaken(mistake, {"--steps", "2"});
    words.insert(words.begin() + 4, "WEFT_CHECK_CONTRACT=1");
    return words;
  };
  for (const char* mistake : {"sums on a thread", "sums on a thread that looks at no error"})
    EXPECT_TRUE(refuses(checked(mistake), kFailed, {"mistaken: all_reduce was called on a thread"}));
  EXPECT_TRUE(
      refuses(checked("sums as it zeroes"), kFailed, {"mistaken: all_reduce was called in zero_gradients"}));
  expect_success(checked("none"));
  expect_success(mistaken("sums on a thread", {"--steps", "2"}));
}

}  // namespace
}  // namespace weft::test
