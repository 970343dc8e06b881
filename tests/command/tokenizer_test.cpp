// `weft tokenizer`, and what the other verbs do with the tokenizer that it trained.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "command/command.hpp"

namespace weft::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class TokenizerCommand : public CommandTest {
 protected:
  static constexpr int kTokens = 300;

  void SetUp() override {
    std::string text;
    for (int i = 0; i < 40; ++i)
      text += "the quick brown fox number " + std::to_string(i) + " jumps over the lazy dog\n";
    text_ = folder_.file("text.txt", text);
    expect_success({"tokenizer", "train", "--data", text_, "--vocab-size", std::to_string(kTokens),
                    "--output", in("tokenizer")});
  }
  Output tokenizer(const Words& words, const std::string& input) const {
    launch::Process process(Words{weft_program(), "tokenizer"} + words,
                            {.environment = {{"OMP_NUM_THREADS", "1"}}, .input = input});
    return process.finish();
  }
  // A model of that many tokens in the folder of the tokenizer.
  std::string model() const {
    std::ofstream(in("tokenizer/config.json")) << config_json({.vocabulary = kTokens});
    return in("tokenizer");
  }
  std::string text_;
};

TEST_F(TokenizerCommand, EncodesAndDecodesLineByLine) {
  const std::string text = "the quick brown fox\n\n  h\xc3\xa9llo \xe4\xb8\xad \n";
  const Output encoded = tokenizer({"encode", "--model", in("tokenizer")}, text);
  ASSERT_EQ(encoded.exit_code, 0) << encoded.error;
  std::istringstream lines(encoded.out);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto ids = json::parse(line).get<std::vector<int64_t>>();
  EXPECT_LE(ids.size(), 8u);  // of 19 bytes: merges were learned
  for (const int64_t id : ids) EXPECT_LT(id, kTokens);
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "[]");
  const Output decoded = tokenizer({"decode", "--model", in("tokenizer")}, encoded.out);
  EXPECT_EQ(decoded.exit_code, 0) << decoded.error;
  EXPECT_EQ(decoded.out, text);
}

TEST_F(TokenizerCommand, RefusesWhatItCannotRead) {
  const auto refused = [&](const Words& words, const std::string& input, const auto&... pieces) {
    const Output output = tokenizer(words, input);
    EXPECT_EQ(output.exit_code, 1) << output.error;
    EXPECT_THAT(output.error, testing::AllOf(HasSubstr(pieces)...));
  };
  const Words decode = {"decode", "--model", in("tokenizer")};
  refused(decode, "[1]\n7\n", "line 2", "integer");
  refused(decode, "[1, \"a\"]\n", "an id");
  refused({"encode", "--model", in("nothing")}, "a\n", in("nothing"));
  refused({"train", "--data", in("missing.txt"), "--output", in("other")}, "", in("missing.txt"));
  refused({"train", "--data", text_, "--vocab-size", "100", "--output", in("other")}, "", "100");
  EXPECT_FALSE(std::filesystem::exists(in("other/tokenizer.json")));
}

// A folder stands for its files, and JSON lines for their texts.
TEST_F(TokenizerCommand, IsTrainedOnFoldersPatternsAndJsonLines) {
  const auto trained = [&](const Words& data, const Words& more = {}) {
    Words words = {"tokenizer", "train", "--vocab-size", std::to_string(kTokens), "--output", in("other")};
    for (const std::string& path : data) words = words + Words{"--data", path};
    expect_success(words + more);
    return read_bytes(in("other/tokenizer.json"));
  };
  const std::string text = read_bytes(text_);
  const size_t middle = text.find('\n', text.size() / 2) + 1;
  std::filesystem::create_directories(in("folder/below"));
  folder_.file("folder/1.txt", text.substr(0, middle));
  folder_.file("folder/below/2.md", text.substr(middle));
  folder_.file("folder/other.dat",
               "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz");
  const std::string expected = read_bytes(in("tokenizer/tokenizer.json"));
  EXPECT_EQ(trained({in("folder")}), expected);
  EXPECT_EQ(trained({in("folder/*.txt"), in("folder/*/*.md")}), expected);
  EXPECT_NE(trained({in("folder/*.txt")}), expected);
  const size_t third = text.find('\n', text.size() / 3) + 1;
  const json plain = {{"text", text.substr(0, third)}},
             pair = {{"prompt", text.substr(third, 7)},
                     {"completion", text.substr(third + 7, middle - third - 7)}},
             chat = {{"messages", {{{"role", "user"}, {"content", text.substr(middle)}}}}};
  folder_.file("lines.jsonl", plain.dump() + "\n\n" + pair.dump() + "\n" + chat.dump() + "\n");
  EXPECT_EQ(trained({in("lines.jsonl")}), expected);
  folder_.file("broken.jsonl", plain.dump() + "\n{\"title\": 1}\n");
  const Words train = {"tokenizer", "train", "--output", in("none"), "--data"};
  EXPECT_TRUE(refuses(train + Words{in("broken.jsonl")}, 1, {"broken.jsonl:2", "\"text\""}));
  EXPECT_TRUE(refuses(train + Words{in("folder/*.log")}, 1, {"folder/*.log", "no file"}));
  EXPECT_FALSE(std::filesystem::exists(in("none")));
}

TEST_F(TokenizerCommand, HasTheSpecialTokensThatAreGiven) {
  const Words train = {"tokenizer", "train", "--data", text_, "--vocab-size", "300", "--output", in("other")};
  expect_success(train + Words{"--special-token", "<end>", "--special-token", "[MASK]"});
  const json config = json::parse(read_bytes(in("other/tokenizer_config.json")));
  EXPECT_EQ(config.at("eos_token"), "<end>");
  EXPECT_EQ(tokenizer({"encode", "--model", in("other")}, "<end>[MASK]\n").out, "[0,1]\n");
  EXPECT_NE(tokenizer({"encode", "--model", in("other")}, "<|endoftext|>\n").out, "[0]\n");
  EXPECT_EQ(tokenizer({"encode", "--model", in("tokenizer")}, "<|endoftext|>\n").out, "[0]\n");
  EXPECT_TRUE(refuses(train + Words{"--special-token", "a"}, 1, {"special token \"a\"", "a byte's"}));
  EXPECT_TRUE(refuses(train + Words{"--special-token", ""}, 1, {"token is \"\""}));
  EXPECT_TRUE(refuses(train + Words{"--special-token", "<x>", "--special-token", "<x>"}, 1, {"given twice"}));
}

TEST_F(TokenizerCommand, ServesTrainingEvaluationAndGeneration) {
  expect_success({"train", "--model", model(), "--data", text_, "--steps", "3", "--batch-size", "4",
                  "--sequence-length", "16", "--output", in("out")});
  EXPECT_TRUE(std::filesystem::exists(in("out/tokenizer.json")));
  const json evaluated =
      json::parse(expect_success({"evaluate", "--model", in("out"), "--data", text_, "--json"}).out);
  EXPECT_GT(evaluated.at("labels").get<double>(), 0);
  const std::string text = expect_success({"generate", "--model", in("out"), "--prompt", "the quick",
                                           "--greedy", "--max-new-tokens", "4"})
                               .out;
  EXPECT_THAT(text, testing::StartsWith("the quick"));
}

// The tokenizer of samples/tokenizer_c.
TEST_F(TokenizerCommand, MayBeOfAPlugin) {
  std::filesystem::create_directory(in("letters"));
  folder_.file("letters/tokenizer_config.json", R"({"tokenizer_class": "CharacterTokenizer"})");
  folder_.file("letters/characters.txt", "abcdefghijklmnopqrstuvwxyz \n");
  folder_.file("letters/config.json", config_json({.vocabulary = 30}));
  EXPECT_TRUE(refuses(
      {"train", "--model", in("letters"), "--tokenizer", in("letters"), "--data", text_, "--steps", "1"}, 1,
      {"CharacterTokenizer", "no plugin"}));
  const auto with_plugin = [](const Words& words, const std::string& input = "") {
    launch::Process process(
        Words{weft_program()} + words,
        {.environment = {{"OMP_NUM_THREADS", "1"}, {"WEFT_PLUGIN_ADD_PATH", WEFT_TEST_TOKENIZERS}},
         .input = input});
    const Output output = process.finish();
    EXPECT_EQ(output.exit_code, 0) << output.error;
    return output.out;
  };
  with_plugin({"train", "--model", in("letters"), "--data", text_, "-n", "2", "--steps", "3", "--batch-size",
               "4", "--sequence-length", "16", "--output", in("out")});
  EXPECT_TRUE(std::filesystem::exists(in("out/characters.txt")));
  const json evaluated =
      json::parse(with_plugin({"evaluate", "--model", in("out"), "--data", text_, "--json"}));
  EXPECT_GT(evaluated.at("labels").get<double>(), 0);
  EXPECT_THAT(
      with_plugin({"generate", "--model", in("out"), "--prompt", "the", "--greedy", "--max-new-tokens", "4"}),
      testing::StartsWith("the"));
  EXPECT_EQ(with_plugin({"tokenizer", "encode", "--model", in("out")}, "cab\n"), "[4,2,3]\n");
}

TEST_F(TokenizerCommand, DoesNotFitASmallerModel) {
  std::ofstream(in("tokenizer/config.json")) << config_json({.vocabulary = 100});
  EXPECT_TRUE(refuses({"train", "--model", in("tokenizer"), "--data", text_, "--steps", "1"}, 1,
                      {"up to", "0 to 99", "--tokenizer"}));
}

}  // namespace
}  // namespace weft::test
