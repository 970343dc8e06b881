// The command with several checkpoint formats: those of the samples, and one that claims folders of others,
// says that it is the default, and crashes.
#include <gmock/gmock.h>

#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Formats : public CommandTest {
 protected:
  std::string weights(const std::string& folder) const {
    return read_bytes(in(folder) + "/model.safetensors");
  }
  Words convert(const std::string& from, const std::string& to, const Words& more = {}) const {
    return Words{"convert", in(from), in(to)} + more;
  }
  Words train_to(const std::string& folder, const char* steps, const Words& more = {}) const {
    return train(Words{"--strategy", "none", "--steps", steps, "--output", in(folder)} + more);
  }
};

TEST_F(Formats, SaveInTheDefaultOneThatIsInstalledWithWeft) {
  expect_success(train_to("out", "1"));
  EXPECT_TRUE(fs::exists(in("out/model.safetensors")));
  expect_success(convert("out", "other", {"--weights-only", "--format", "safetensors"}));
  EXPECT_TRUE(weights("other") == weights("out"));
}

TEST_F(Formats, ConvertBetweenAnyTwoAndTheTrainingGoesOn) {
  expect_success(train_to("out", "2"));
  expect_success(train_to("whole", "3"));
  std::string last = "out";
  for (const char* format :
       {"raw_files", "packed", "pytorch", "packed@" WEFT_TEST_VERSION, "raw_files", "hugging_face"}) {
    SCOPED_TRACE(format);
    const std::string next = std::string("as_") + format;
    expect_success(convert(last, next, {"--format", format}));
    last = next;
  }
  EXPECT_TRUE(weights(last) == weights("out"));
  EXPECT_TRUE(fs::exists(in("as_raw_files/raw_files.txt")));
  EXPECT_FALSE(fs::exists(in("as_raw_files/model.safetensors")));
  EXPECT_FALSE(fs::exists(in("as_packed@" WEFT_TEST_VERSION "/pytorch_model.bin")))
      << "weights are not copied as other files";
  expect_success(convert("as_raw_files", "as_raw_files", {"--format", "packed"}));
  EXPECT_FALSE(fs::exists(in("as_raw_files/raw_files.txt")));
  for (const char* folder : {"as_raw_files", "as_packed"}) {
    SCOPED_TRACE(folder);
    expect_success(train_to("resumed", "3", {"--resume", in(folder)}));
    EXPECT_TRUE(weights("resumed") == weights("whole"));
    fs::remove_all(in("resumed"));
  }
}

TEST_F(Formats, TrainInTheOneThatIsNamed) {
  expect_success(train_to("whole", "2"));
  expect_success(train_to("out", "1", {"--checkpoint-io", "raw_files"}));
  EXPECT_TRUE(fs::exists(in("out/raw_files.txt")));
  EXPECT_FALSE(fs::exists(in("out/model.safetensors")));
  expect_success(train_to("out", "2", {"--checkpoint-io", "packed", "--resume", in("out")}));
  EXPECT_TRUE(fs::exists(in("out/packed.weights")));
  EXPECT_FALSE(fs::exists(in("out/raw_files.txt")));
  expect_success({"evaluate", "--model", in("out"), "--data", data_});
  expect_success(convert("out", "out", {"--weights-only", "--format", "safetensors"}));
  EXPECT_TRUE(weights("out") == weights("whole"));
}

TEST_F(Formats, RefuseWhatCannotBeWritten) {
  expect_success(train_to("out", "1"));
  EXPECT_TRUE(refuses(convert("out", "x", {"--format", "raw_file"}), 1, {"raw_file", "raw_files"}));
  EXPECT_TRUE(refuses(convert("out", "x", {"--format", "raw_files@9.9.9"}), 1,
                      {"raw_files", "9.9.9", WEFT_TEST_VERSION}));
  EXPECT_TRUE(refuses(convert("out", "x", {"--format", "raw_files", "--shard"}), 1, {"raw_files", "shard"}));
  EXPECT_TRUE(refuses(convert("out", "x.safetensors", {"--format", "packed", "--weights-only"}), 1,
                      {"packed", "x.safetensors", "folder"}));
  EXPECT_TRUE(refuses(convert("out", "x.bin", {"--format", "safetensors", "--weights-only"}), 1, {"x.bin"}));
  EXPECT_TRUE(refuses(train_to("y", "1", {"--checkpoint-io", "raw_file"}), 1, {"raw_file", "raw_files"}));
  EXPECT_TRUE(refuses(train_to("y", "1", {"--checkpoint-io", "claims"}), 1, {"claims"}));
  for (const char* name : {"x", "x.safetensors", "x.bin", "y"}) EXPECT_FALSE(fs::exists(in(name))) << name;
}

TEST_F(Formats, AreBothNamedIfTwoRecogniseAFolder) {
  expect_success(train_to("out", "1"));
  folder_.file("out/claimed", "");
  const std::vector<std::string> both = {"claims", "hugging_face", "--checkpoint-io"};
  const Words evaluate = {"evaluate", "--model", in("out"), "--data", data_};
  EXPECT_TRUE(refuses(evaluate, 1, both));
  EXPECT_TRUE(refuses(train_to("out", "2", {"--resume", in("out")}), 1, both));
  EXPECT_TRUE(refuses(convert("out", "x", {"--weights-only"}), 1, both));
  expect_success(evaluate + Words{"--checkpoint-io", "hugging_face"});
  expect_success(convert("out", "x", {"--checkpoint-io", "safetensors"}));
  expect_success(train_to("out", "2", {"--resume", in("out"), "--checkpoint-io", "safetensors"}));
  EXPECT_TRUE(refuses(evaluate + Words{"--checkpoint-io", "claims"}, 1, {"claims reads and writes nothing"}));
  // The option names what is written, and decides nothing where only one can read.
  fs::remove(in("out/claimed"));
  expect_success({"train", "--model", in("out"), "--data", data_, "--strategy", "none", "--steps", "1",
                  "--output", in("y"), "--checkpoint-io", "packed"});
}

TEST_F(Formats, AreNamedIfTheyCrash) {
  expect_success(train_to("out", "1"));
  folder_.file("out/crash", "");
  for (const Words& words : {convert("out", "x"), Words{"evaluate", "--model", in("out"), "--data", data_},
                             Words{"evaluate", "-n", "2", "--model", in("out"), "--data", data_}}) {
    SCOPED_TRACE(testing::PrintToString(words));
    const Output output = weft_command(words);
    EXPECT_NE(output.exit_code, 0);
    EXPECT_THAT(output.error, HasSubstr("claims of claims 1.0.0"));
    EXPECT_THAT(output.error, HasSubstr("SIGABRT"));
    EXPECT_THAT(output.error, HasSubstr(in("out")));
  }
}

}  // namespace
}  // namespace weft::test
