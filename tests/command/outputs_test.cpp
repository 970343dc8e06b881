// What the command writes: a full disk is an error that leaves what was there, a record that cannot be
// written costs no training, and no output overwrites what the job reads.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "command/command.hpp"
#include "support/small_disk.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr int kFailed = 1;
constexpr const char* kNoRoom = "No space left on device";

size_t count_of(const std::string& text, const std::string& piece) {
  size_t count = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++count;
  return count;
}

class Outputs : public CommandTest {
 protected:
  // Runs a line of the shell in which $weft is the command.
  static Output shell(const std::string& line, const std::string& input = "") {
    const std::string before = "weft=" + weft_program() + "; ";
    return launch::Process({"bash", "-c", before + line},
                           {.environment = {{"OMP_NUM_THREADS", "1"}}, .input = input})
        .finish();
  }
  Words train_on_one(const Words& more) const { return train(Words{"--strategy", "none"} + more); }
  // Returns the names in the folder of the test.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_.path()))
      names.push_back(entry.path().lexically_relative(folder_.path()).string());
    return names;
  }
  void expect_nothing_staged() const {
    for (const std::string& name : names()) {
      EXPECT_THAT(name, Not(HasSubstr(".saving-")));
      EXPECT_THAT(name, Not(HasSubstr(".partial")));
    }
  }
};

TEST_F(Outputs, ARecordOnAFullDiskEndsAndTheTrainingIsSaved) {
  for (const Words& ranks : {Words{"--strategy", "none"}, Words{"-n", "2", "--strategy", "torch_ddp"}})
    for (const std::string flag : {"--metrics", "--trace"}) {
      const Output output =
          weft_command(train(ranks + Words{"--steps", "3", flag, "/dev/full", "--output", in("out")}));
      EXPECT_EQ(output.exit_code, kFailed) << output.error;
      EXPECT_EQ(count_of(output.error, kNoRoom), 1u) << output.error;
      EXPECT_THAT(output.error, HasSubstr("saved " + in("out")));
      EXPECT_THAT(output.error, HasSubstr("weft: train: " + flag + " /dev/full"));
      EXPECT_THAT(output.error, Not(HasSubstr("exited with code"))) << output.error;
      EXPECT_TRUE(fs::exists(in("out/config.json")));
      fs::remove_all(in("out"));
    }
}

TEST_F(Outputs, RecordsOnASmallDiskAreWholeAsFarAsTheyGo) {
  fs::create_directory(in("disk"));
  const auto passed = passes_on_small_disk(in("disk"), 8 << 10, [&] {
    folder_.file("disk/trace", "an earlier trace");
    const Output output = weft_command(
        train_on_one({"--steps", "40", "--tensorboard", in("disk/events"), "--output", in("out")}));
    EXPECT_EQ(output.exit_code, kFailed) << output.error;
    EXPECT_EQ(count_of(output.error, kNoRoom), 1u) << output.error;
    EXPECT_TRUE(fs::exists(in("out/config.json")));
    const Output traced =
        weft_command(train_on_one({"--steps", "1", "--trace", in("disk/trace"), "--output", in("out")}));
    EXPECT_EQ(traced.exit_code, kFailed) << traced.error;
    EXPECT_EQ(read_bytes(in("disk/trace")), "an earlier trace");
    expect_nothing_staged();
  });
  if (!passed) GTEST_SKIP() << "a small disk cannot be mounted here";
  EXPECT_TRUE(*passed);
}

TEST_F(Outputs, AreNotLostOnAFullDiskByAnyVerb) {
  copy_trained_model();
  const std::string model = " --model " + in("out");
  for (const std::string& words :
       {std::string("plugins list"), std::string("plugins show torch_ddp"), std::string("train --help"),
        std::string("--version"), std::string("check"), "plugins digest " + data_,
        "plan --world-size 2 --model " + config_, "generate --prompt a --max-new-tokens 2" + model,
        "generate -n 2 --prompt a --max-new-tokens 2" + model, "evaluate --data " + data_ + model,
        "evaluate -n 2 --data " + data_ + model}) {
    const Output output = shell("$weft " + words + " > /dev/full");
    EXPECT_EQ(output.exit_code, kFailed) << words;
    EXPECT_EQ(count_of(output.error, "stdout cannot be written: " + std::string(kNoRoom)), 1u)
        << words << "\n"
        << output.error;
  }
  EXPECT_EQ(shell("$weft --version >&-").exit_code, kFailed);
  // A training prints nothing there.
  EXPECT_EQ(
      shell("$weft train --strategy none --steps 1 --model " + config_ + " --data " + data_ + " > /dev/full")
          .exit_code,
      0);
}

TEST_F(Outputs, IntoAPipeThatNobodyReadsEndQuietly) {
  for (const std::string words : {"plugins list", "plugins list --json", "train --help"}) {
    const Output output = shell("$weft " + words + " | head -c 1; exit 0");
    EXPECT_EQ(output.error, "") << words;
  }
}

TEST_F(Outputs, AreWholeOrAnErrorForTokenizers) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "gather of shards, rank " + std::to_string(i) + "\n";
  const std::string file = folder_.file("text.txt", text), tokenizer = in("tokenizer");
  expect_success({"tokenizer", "train", "--data", file, "--vocab-size", "300", "--output", tokenizer});
  const std::string encode = "$weft tokenizer encode --model " + tokenizer + " < " + file;
  const Output full = shell(encode + " > /dev/full");
  EXPECT_EQ(full.exit_code, kFailed);
  EXPECT_THAT(full.error, HasSubstr(kNoRoom));
  const Output piped = shell("set -o pipefail; " + encode + " | head -1");
  EXPECT_EQ(piped.exit_code, 0) << piped.error;
  EXPECT_EQ(piped.error, "");
  const Output endless = shell("ulimit -f 10000; " + encode + " >> " + file);
  EXPECT_EQ(endless.exit_code, kFailed);
  EXPECT_THAT(endless.error, testing::AllOf(HasSubstr("stdout is"), HasSubstr("stdin reads")));
  EXPECT_EQ(read_bytes(file), text);
}

TEST_F(Outputs, BeyondALimitOfFileSizesAreErrorsThatLeaveNothing) {
  copy_trained_model();
  const auto plan = [&](int samples) {
    return fmt::format(
        "plan --model {0} --strategy hybrid_parallel -o pp_size=2 -o num_microbatches={1} --batch-size {1} ",
        config_, samples);
  };
  for (const auto& [words, output] : std::vector<std::pair<std::string, std::string>>{
           {"convert " + in("out") + " ", in("converted")},
           {"convert --weights-only " + in("out") + " ", in("x.bin")},
           {"tokenizer train --vocab-size 400 --data " + data_ + " --output ", in("tokenizer/folder")},
           {plan(64) + "--picture ", in("s.svg")},
           {plan(1024) + "--schedule-file ", in("s.txt")}}) {
    const std::vector<std::string> before = names();
    const Output limited = shell("ulimit -f 2; exec $weft " + words + output);
    EXPECT_EQ(limited.exit_code, kFailed) << words << limited.error;
    EXPECT_THAT(limited.error, HasSubstr("File too large")) << words;
    EXPECT_EQ(names(), before) << words;
  }
  // A program that `weft run` starts gets the signal as ever.
  const Output run =
      shell("ulimit -f 2; exec $weft run -n 1 -- sh -c 'head -c 10000 /dev/zero > " + in("zero") + "'");
  EXPECT_THAT(run.error + std::to_string(run.exit_code),
              testing::AnyOf(HasSubstr("SIGXFSZ"), HasSubstr("153")));
}

TEST_F(Outputs, DoNotOverwriteWhatTheJobReads) {
  copy_trained_model();
  const std::string data = read_bytes(data_);
  fs::create_symlink(data_, in("link"));
  fs::create_hard_link(data_, in("other_name"));
  fs::create_directory(in("texts"));
  fs::create_symlink("../data.txt", in("texts/a.txt"));
  const Words one = {"--strategy", "none", "--steps", "1"};
  for (const std::string& path : {data_, in("link"), in("other_name"), folder_.path() + "/texts/../data.txt"})
    EXPECT_TRUE(
        refuses(train(one + Words{"--metrics", path}), kFailed, {"--metrics " + path, "--data " + data_}));
  EXPECT_TRUE(refuses(train(one + Words{"--trace", in("link")}), kFailed, {"--trace", "--data " + data_}));
  EXPECT_TRUE(refuses(train(one + Words{"--trace", config_}), kFailed, {"--trace", "--model " + config_}));
  const Words from_folder = Words{"train", "--model", in("out"), "--data", in("texts")} + one;
  EXPECT_TRUE(
      refuses(from_folder + Words{"--metrics", data_}, kFailed, {"--metrics", "--data " + in("texts")}));
  EXPECT_TRUE(refuses(from_folder + Words{"--metrics", in("out/model.safetensors")}, kFailed,
                      {"--model " + in("out")}));
  EXPECT_TRUE(
      refuses(Words{"train", "--model", config_, "--data", in("te*/*.txt")} + one + Words{"--trace", data_},
              kFailed, {"--trace", "command reads"}));
  const std::string other = folder_.file("held=out.txt", sample_text(100));
  for (const std::string& word : {other, "books=" + other, "books=" + in("he*.txt")})
    EXPECT_TRUE(
        refuses(train(one + Words{"--evaluate-every", "1", "--evaluation-data", word, "--metrics", other}),
                kFailed, {"--metrics " + other, "--evaluation-data"}));
  EXPECT_TRUE(refuses(train(one + Words{"--data", other + "=0.5", "--metrics", other}), kFailed,
                      {"--metrics " + other, "--data"}));
  EXPECT_TRUE(
      refuses(train(one + Words{"--resume", in("out"), "--metrics", in("out/training_state/state.json")}),
              kFailed, {"--metrics", "--resume " + in("out")}));
  EXPECT_TRUE(refuses({"evaluate", "--model", in("out"), "--data", data_, "-n", "2", "--metrics", in("link")},
                      kFailed, {"--metrics " + in("link"), "--data " + data_}));
  EXPECT_TRUE(refuses({"forward", "--model", in("out"), "--inputs", in("out/model.safetensors"), "--output",
                       in("out/model.safetensors")},
                      kFailed, {"--output", "command reads"}));
  EXPECT_TRUE(
      refuses({"tokenizer", "train", "--data", in("out/config.json"), "--data", data_, "--output", in("out")},
              kFailed, {"config.json"}));
  folder_.file("tokenizer.json", data);
  EXPECT_TRUE(refuses({"tokenizer", "train", "--data", in("tokenizer.json"), "--output", folder_.path()},
                      kFailed, {"--output " + in("tokenizer.json"), "--data"}));
  EXPECT_TRUE(refuses({"convert", in("out/model.safetensors"), in("out/model.safetensors")}, kFailed,
                      {"OUTPUT", "INPUT"}));
  EXPECT_TRUE(refuses(
      {"plan", "--model", config_, "--strategy", "hybrid_parallel", "-o", "pp_size=2", "--picture", config_},
      kFailed, {"--picture " + config_, "--model"}));
  EXPECT_EQ(read_bytes(data_), data);
  EXPECT_TRUE(fs::is_symlink(in("link")));
}

TEST_F(Outputs, AreFilesOfTheirOwn) {
  const Words one = {"--strategy", "none", "--steps", "1"};
  fs::create_symlink("m", in("link"));
  for (const std::string& other : {in("m"), in("link"), folder_.path() + "/./m"})
    EXPECT_TRUE(refuses(train(one + Words{"--metrics", in("m"), "--trace", other}), kFailed,
                        {"--metrics " + in("m") + " and --trace " + other, "same file"}));
  for (const char* name : {"new", "new/config.json", "new/training_state/m", "new/model.safetensors"})
    EXPECT_TRUE(refuses(train(one + Words{"--output", in("new"), "--metrics", in(name)}), kFailed,
                        {"--metrics " + in(name), "--output " + in("new")}));
  // A folder is replaced by what was resumed from it, and by nothing else.
  copy_trained_model();
  const Words on = {"train", "--model", in("out"), "--data", data_, "--strategy", "none", "--steps", "21"};
  EXPECT_TRUE(
      refuses(on + Words{"--output", in("out")}, kFailed, {"--output " + in("out"), "--model " + in("out")}));
  fs::create_directory_symlink("out", in("same"));
  expect_success(on + Words{"--output", in("same"), "--resume", in("out"), "--metrics", in("out/m"),
                            "--trace", "/dev/null"});
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(read_metrics(in("out/m")).size(), 1u);
}

TEST_F(Outputs, DoNotReplaceAPipeOrALink) {
  copy_trained_model();
  folder_.file("batch.safetensors", safetensors_bytes({{"input_ids", int64_tensor({1, 4}, {1, 2, 3, 4})}}));
  ASSERT_EQ(mkfifo(in("pipe").c_str(), 0600), 0);
  const Words forward = {"forward", "--model", in("out"), "--inputs", in("batch.safetensors"), "--output"};
  EXPECT_TRUE(refuses(forward + Words{in("pipe")}, kFailed, {in("pipe"), "regular file"}));
  EXPECT_TRUE(fs::is_fifo(in("pipe")));
  fs::create_symlink("outputs.safetensors", in("link.safetensors"));
  expect_success(forward + Words{in("link.safetensors")});
  EXPECT_TRUE(fs::is_symlink(in("link.safetensors")));
  EXPECT_TRUE(fs::exists(in("outputs.safetensors")));
}

TEST_F(Outputs, AreSavedAfterTheModelFolderIsGone) {
  const std::string text = read_bytes(data_), file = folder_.file("text.txt", text);
  expect_success({"tokenizer", "train", "--data", file, "--vocab-size", "270", "--output", in("model")});
  folder_.file("model/config.json", config_json({.vocabulary = 270}));
  folder_.file("model/generation_config.json", R"({"top_k": 7})");
  folder_.file("model/chat_template.jinja", "{{ messages }}");
  StepPipe steps(folder_);
  launch::Process training =
      start_weft({"train", "--model", in("model"), "--data", file, "--sequence-length", "16", "--steps", "6",
                  "-n", "2", "--metrics", steps.path(), "--output", in("out"), "--save-every", "3"});
  ASSERT_TRUE(steps.next());  // the job runs
  fs::rename(in("model"), in("moved"));
  const Output output = training.finish();
  EXPECT_EQ(output.exit_code, 0) << output.error;
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"}) {
    EXPECT_EQ(read_bytes(in("out/") + name), read_bytes(in("moved/") + name)) << name;
    EXPECT_EQ(read_bytes(in("out/step-3/") + name), read_bytes(in("moved/") + name)) << name;
  }
  EXPECT_THAT(names(), Not(testing::Contains(HasSubstr(".tokenizer"))));
}

}  // namespace
}  // namespace weft::test
