#include <gtest/gtest.h>

#include "tokenizer/files.hpp"

namespace weft {

namespace {

using test::added_token;
using test::Json;
using test::open_tokenizer;
using test::small_tokenizer;
using Ids = std::vector<int64_t>;

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, size_t* steps = nullptr) {
  Tokenizer::StreamDecoder stream(tokenizer);
  std::string text;
  for (const int64_t id : ids) {
    const std::string added = stream.add(id);
    if (steps && !added.empty()) ++*steps;
    text += added;
  }
  return text + stream.end();
}

Json of_bytes() {
  Json parts = {{"decoder", {{"type", "ByteLevel"}}},
                {"model", {{"type", "BPE"}, {"merges", Json::array()}}}};
  // é is the bytes C3 A9, which are spelled Ã and ©.
  parts["model"]["vocab"] = {{"a", 0}, {"Ã", 1}, {"©", 2}, {"Ġ", 3}};
  return parts;
}

TEST(Decode, JoinsTokensWithSpacesWithoutADecoder) {
  EXPECT_EQ(open_tokenizer(small_tokenizer()).decode({6, 99, 2, -1}), "ab c");
}

TEST(Decode, LeavesSpecialTokensOutIfThatIsWanted) {
  Json parts = of_bytes();
  parts["added_tokens"] = {added_token("<x>"), added_token("<y>", {{"special", false}})};
  const Tokenizer tokenizer = open_tokenizer(parts);
  EXPECT_EQ(tokenizer.decode({0, 4, 5, 0}), "a<y>a");
  EXPECT_EQ(tokenizer.decode({0, 4, 5, 0}, false), "a<x><y>a");
}

TEST(Decode, StreamsWholeCharacters) {
  const Tokenizer tokenizer = open_tokenizer(of_bytes());
  Tokenizer::StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.add(0), "a");
  EXPECT_EQ(stream.add(1), "");
  EXPECT_EQ(stream.add(2), "é");
  EXPECT_EQ(stream.add(1), "");
  EXPECT_EQ(stream.end(), "\uFFFD");
}

TEST(Decode, StreamsWhatItDecodesAtOnce) {
  Json parts = of_bytes();
  parts["added_tokens"] = Json::array({added_token("<x>")});
  const Tokenizer tokenizer = open_tokenizer(parts);
  Ids ids;
  for (int64_t i = 0; i < 300; ++i) ids.push_back(i * i * 7 % 11 % 5);
  size_t steps = 0;
  EXPECT_EQ(streamed(tokenizer, ids, &steps), tokenizer.decode(ids));
  EXPECT_GT(steps, 50u);
}

TEST(Decode, TakesTheFirstSpaceOfMarkedWords) {
  Json parts = small_tokenizer();
  parts["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
  const Tokenizer tokenizer = open_tokenizer(parts);
  Ids ids;
  for (int i = 0; i < 40; ++i) ids.insert(ids.end(), {5, 6});
  EXPECT_EQ(tokenizer.decode(ids).substr(0, 8), "ab ab ab");
  EXPECT_EQ(streamed(tokenizer, ids), tokenizer.decode(ids));
}

TEST(Decode, JoinsBytesThatFellBack) {
  Json parts = small_tokenizer();
  parts["model"]["vocab"] = {{"a", 0}, {"<0xC3>", 1}, {"<0xA9>", 2}, {"▁b", 3}};
  parts["model"]["merges"] = Json::array();
  parts["decoder"] = {{"type", "Sequence"},
                      {"decoders",
                       {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                        {{"type", "ByteFallback"}},
                        {{"type", "Fuse"}},
                        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  const Tokenizer tokenizer = open_tokenizer(parts);
  EXPECT_EQ(tokenizer.decode({3, 1, 2, 3}), "bé b");
  EXPECT_EQ(tokenizer.decode({1, 1, 2, 0}), "\uFFFD\uFFFD\uFFFDa");
  EXPECT_EQ(streamed(tokenizer, {3, 1, 2, 3, 1, 1, 2, 0}), tokenizer.decode({3, 1, 2, 3, 1, 1, 2, 0}));
}

TEST(Decode, CleansSpacesUpWhereTransformersDoes) {
  Json parts = {{"model",
                 {{"type", "WordLevel"},
                  {"unk_token", "a"},
                  {"vocab", {{"a", 0}, {".", 1}, {"n't", 2}, {"'s", 3}, {"do", 4}, {"'", 5}, {"n", 6}}}}}};
  const Ids ids = {4, 2, 0, 3, 0, 1, 6, 5, 0, 1, 6};
  EXPECT_EQ(open_tokenizer(parts).decode(ids), "do n't a 's a . n ' a . n");
  const Tokenizer tokenizer = open_tokenizer(parts, {{"clean_up_tokenization_spaces", true}});
  EXPECT_EQ(tokenizer.decode(ids), "don't a's a. n'a. n");
  EXPECT_EQ(streamed(tokenizer, ids), tokenizer.decode(ids));
  EXPECT_EQ(open_tokenizer(small_tokenizer(), {{"clean_up_tokenization_spaces", true}}).decode({0, 1}),
            "a b");
}

}  // namespace

}  // namespace weft
