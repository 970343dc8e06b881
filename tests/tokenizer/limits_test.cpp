// A tokenizer.json that would take for ever or fill the memory is refused, with the name of the rule.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "tokenizer/files.hpp"

namespace weft {
namespace {

using test::added_token;
using test::Json;
using test::open_tokenizer;
using test::small_tokenizer;

Json with(const char* key, const Json& part) {
  Json file = small_tokenizer();
  file[key] = part;
  return file;
}
Json times(size_t count, const Json& item) {
  return std::vector<Json>(count, item);
}
Json normalizers(const Json& list) {
  return with("normalizer", {{"type", "Sequence"}, {"normalizers", list}});
}
Json replace(const std::string& what, const std::string& by) {
  return {{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", by}};
}

TEST(TokenizerLimits, RefuseANormalizerThatMakesTooMuch) {
  const auto refused = [](const Json& file, const std::string& text, const char* rule) {
    const Tokenizer tokenizer = open_tokenizer(file);
    EXPECT_ERROR(tokenizer.encode(text), WEFT_RESOURCE_EXHAUSTED, "tokenizer.json: ", rule, "writes more")
        << rule;
  };
  const std::string many(4000, 'a'), large(1'000'000, 'a');
  refused(normalizers(times(40, replace("a", "aa"))), "a", "\"normalizer\" Replace");
  refused(with("normalizer", replace("a", large)), many, "\"normalizer\" Replace");
  refused(with("normalizer", {{"type", "Prepend"}, {"prepend", std::string(2'000'000, 'a')}}), "a",
          "\"normalizer\" Prepend");
  refused(normalizers(times(40, {{"type", "ByteLevel"}})), "\u00e9", "\"normalizer\" ByteLevel");
  // Each part between the added tokens becomes long.
  Json parts = with("normalizer", replace("a", std::string(100'000, 'a')));
  parts["added_tokens"] = Json::array({added_token("<s>")});
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a<s>";
  refused(parts, text, "\"normalizer\" Replace");
  const Tokenizer fair = open_tokenizer(normalizers({replace("a", "aa"), replace("a", "aa")}));
  EXPECT_EQ(fair.encode(many).size(), 16'000u);
}

TEST(TokenizerLimits, RefuseAPreTokenizerThatMakesTooMuch) {
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Tokenizer tokenizer =
      open_tokenizer(with("pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", times(40, byte_level)}}));
  EXPECT_ERROR(tokenizer.encode("\u00e9"), WEFT_RESOURCE_EXHAUSTED, "\"pre_tokenizer\" ByteLevel",
               "writes more");
}

TEST(TokenizerLimits, RefuseADecoderThatMakesTooMuch) {
  const auto refused = [](const Json& decoder, const std::vector<int64_t>& ids, const char* what) {
    const Tokenizer tokenizer = open_tokenizer(with("decoder", decoder));
    EXPECT_ERROR(tokenizer.decode(ids), WEFT_RESOURCE_EXHAUSTED, "tokenizer.json: ", what) << what;
  };
  refused({{"type", "Sequence"}, {"decoders", times(40, replace("a", "aa"))}}, {0}, "\"decoder\" Replace");
  refused(replace("a", std::string(1'000'000, 'a')), std::vector<int64_t>(4000, 0), "\"decoder\" Replace");
  Json vocabulary = small_tokenizer();
  vocabulary["model"]["vocab"][std::string(1'000'000, 'x')] = 8;
  const Tokenizer tokenizer = open_tokenizer(vocabulary);
  EXPECT_ERROR(tokenizer.decode(std::vector<int64_t>(100'000, 8)), WEFT_RESOURCE_EXHAUSTED, "tokenizer.json",
               "100000 ids");
}

TEST(TokenizerLimits, RefuseARuleThatTakesForEver) {
  const auto refused = [](const Json& file, const std::string& text, const char* rule,
                          const char* more = "") {
    const Tokenizer tokenizer = open_tokenizer(file);
    EXPECT_ERROR(tokenizer.encode(text), WEFT_RESOURCE_EXHAUSTED, "tokenizer.json: ", rule, more, "steps")
        << rule;
  };
  const Json slow = {{"type", "Split"}, {"pattern", {{"Regex", "(a*)*b"}}}, {"behavior", "Isolated"}};
  const std::string text(12'000, 'a');
  refused(with("pre_tokenizer", slow), text, "\"pre_tokenizer\" Split: ", "expression \"(a*)*b\"");
  Json file = small_tokenizer();
  file["added_tokens"] = Json::array({added_token(std::string(50'000, 'a') + "b")});
  refused(file, text, "\"added_tokens\"");
  file = with("model", {{"type", "Unigram"},
                        {"unk_id", 0},
                        {"vocab", Json::array({Json::array({"a", -1.0}),
                                               Json::array({std::string(50'000, 'a') + "b", -1.0})})}});
  refused(file, text, "\"model\" Unigram");
  file = with("model", {{"type", "WordPiece"},
                        {"unk_token", "a"},
                        {"max_input_chars_per_word", 1'000'000},
                        {"vocab", {{"a", 0}, {"##a", 1}, {std::string(50'000, 'a') + "b", 2}}}});
  refused(file, text, "\"model\" WordPiece");
}

TEST(TokenizerLimits, RefuseFilesWhoseRulesAreTooManyOrTooLong) {
  const auto refused = [](const Json& file, const char* part, const char* why) {
    EXPECT_ERROR(open_tokenizer(file), WEFT_DATA_LOSS, part, why) << part;
  };
  refused(normalizers(times(257, {{"type", "NFC"}})), "\"normalizer\" has 258 rules", "256");
  refused(
      with("pre_tokenizer",
           {{"type", "Split"}, {"pattern", {{"Regex", std::string(20'000, 'a')}}}, {"behavior", "Isolated"}}),
      "\"pre_tokenizer\" Split", "20000 bytes");
  Json file = small_tokenizer();
  file["model"]["continuing_subword_prefix"] = std::string(1000, 'a');
  refused(file, "continuing_subword_prefix", "32 bytes");
  const Json a = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json processor = {{"type", "TemplateProcessing"},
                          {"single", times(10'000, a)},
                          {"pair", Json::array()},
                          {"special_tokens", Json::object()}};
  refused(with("post_processor", processor), "single", "16 sequences");
}

// Tokens of spaces that take the space at their sides once looked through all of it for each of them.
TEST(TokenizerLimits, FindTokensOfSpaceInALongRunOfIt) {
  Json file = small_tokenizer();
  file["added_tokens"] = Json::array({added_token(" ", {{"lstrip", true}, {"rstrip", true}})});
  const Tokenizer tokenizer = open_tokenizer(file);
  EXPECT_EQ(tokenizer.encode(std::string(400'000, ' ')).size(), 400'000u);
}

}  // namespace
}  // namespace weft
