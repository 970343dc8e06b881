#include <gtest/gtest.h>

#include <thread>

#include "tokenizer/files.hpp"

namespace weft {

namespace {

using test::added_token;
using test::Json;
using test::open_tokenizer;
using test::small_tokenizer;
using Ids = std::vector<int64_t>;

TEST(Encode, MergesTheLowestRankFirstAndOfEqualOnesTheLeftmost) {
  const Tokenizer tokenizer = open_tokenizer(small_tokenizer());
  EXPECT_EQ(tokenizer.encode("abcab"), (Ids{7, 6}));
  EXPECT_EQ(tokenizer.encode("cba"), (Ids{2, 1, 0}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
}

TEST(Encode, MergesLongWordsAsShortOnes) {
  const Tokenizer tokenizer = open_tokenizer(small_tokenizer());
  std::string text;
  Ids ids;
  for (int i = 0; i < 1000; ++i) {
    text += "abcd";
    ids.insert(ids.end(), {7, 3});
  }
  EXPECT_EQ(tokenizer.encode(text), ids);
}

TEST(Encode, LeavesOutOrReplacesWhatTheVocabularyHasNot) {
  Json parts = small_tokenizer();
  EXPECT_EQ(open_tokenizer(parts).encode("axxb"), (Ids{6}));  // a and b are neighbours then
  parts["model"]["vocab"]["?"] = 8;
  parts["model"]["unk_token"] = "?";
  EXPECT_EQ(open_tokenizer(parts).encode("axxb"), (Ids{0, 8, 8, 1}));
  parts["model"]["fuse_unk"] = true;
  EXPECT_EQ(open_tokenizer(parts).encode("axxb"), (Ids{0, 8, 1}));
  parts["model"]["byte_fallback"] = true;
  parts["model"]["vocab"]["<0x78>"] = 9;
  EXPECT_EQ(open_tokenizer(parts).encode("axxb"), (Ids{0, 9, 9, 1}));
}

TEST(Encode, MarksPiecesInsideAndAtTheEndOfWords) {
  const Json parts = {{"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                      {"model",
                       {{"type", "BPE"},
                        {"continuing_subword_prefix", "##"},
                        {"end_of_word_suffix", "$"},
                        {"vocab", {{"a", 0}, {"##b", 1}, {"##b$", 2}, {"ab$", 3}, {"a$", 4}}},
                        {"merges", {"a ##b$"}}}}};
  EXPECT_EQ(open_tokenizer(parts).encode("ab abb a"), (Ids{3, 0, 1, 2, 4}));
}

TEST(Encode, TakesWholeWordsWhereMergesAreIgnored) {
  Json parts = small_tokenizer();
  parts["model"]["vocab"]["da"] = 8;
  parts["model"]["ignore_merges"] = true;
  EXPECT_EQ(open_tokenizer(parts).encode("da"), Ids{8});
}

TEST(Encode, FindsAddedTokensBeforeWords) {
  Json parts = small_tokenizer();
  parts["added_tokens"] = {added_token("<x>", {{"lstrip", true}, {"rstrip", true}}), added_token("<x>b"),
                           added_token("ca", {{"single_word", true}})};
  const Tokenizer tokenizer = open_tokenizer(parts);
  EXPECT_EQ(tokenizer.encode("a <x> ab"), (Ids{0, 8, 6}));
  EXPECT_EQ(tokenizer.encode("<x>ba"), (Ids{9, 0})) << "the longest";
  EXPECT_EQ(tokenizer.encode("ca bca ca"), (Ids{10, 4, 1, 2, 0, 4, 10}));
  EXPECT_EQ(tokenizer.vocabulary_size(), 11);
}

TEST(Encode, NumbersAddedTokensBehindTheVocabularyWhateverTheFileSays) {
  Json parts = small_tokenizer();
  parts["added_tokens"] = {added_token("<x>", {{"id", 100}}), added_token("a", {{"id", 7}})};
  const Tokenizer tokenizer = open_tokenizer(parts);
  EXPECT_EQ(tokenizer.id_of("<x>"), 8);
  EXPECT_EQ(tokenizer.id_of("a"), 0);
}

TEST(Encode, PutsTheMarkOfSpacesInFrontAsTheSchemeSays) {
  Json parts = small_tokenizer();
  parts["added_tokens"] = Json::array({added_token("<x>")});
  const auto ids = [&](const char* scheme) {
    parts["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}};
    return open_tokenizer(parts).encode("a b<x>a");
  };
  EXPECT_EQ(ids("always"), (Ids{5, 0, 5, 1, 8, 5, 0}));
  EXPECT_EQ(ids("first"), (Ids{5, 0, 5, 1, 8, 0}));
  EXPECT_EQ(ids("never"), (Ids{0, 5, 1, 8, 0}));
}

TEST(Encode, CutsAtMatchesAsEachBehaviorSays) {
  const auto words = [](const char* behavior, bool invert = false) {
    Json parts = small_tokenizer();
    parts["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"String", "b"}}}, {"behavior", behavior}, {"invert", invert}};
    return open_tokenizer(parts).encode("abcabb");
  };
  EXPECT_EQ(words("Removed"), (Ids{0, 2, 0}));
  EXPECT_EQ(words("Isolated"), (Ids{0, 1, 2, 0, 1, 1}));
  EXPECT_EQ(words("MergedWithPrevious"), (Ids{6, 2, 6, 1}));
  EXPECT_EQ(words("MergedWithNext"), (Ids{0, 1, 2, 0, 1, 1}));
  EXPECT_EQ(words("Removed", true), (Ids{1, 1, 1}));
}

TEST(Encode, JoinsPairsAsThePostProcessorSays) {
  Json parts = small_tokenizer();
  parts["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"d", 3}}, {"cls", {"c", 2}}};
  Ids types;
  EXPECT_EQ(open_tokenizer(parts).encode_pair("a", "ab", &types), (Ids{2, 0, 3, 6, 3}));
  EXPECT_EQ(types, (Ids{0, 0, 0, 1, 1}));
  EXPECT_EQ(open_tokenizer(parts).encode("a"), (Ids{2, 0, 3}));
  EXPECT_EQ(open_tokenizer(parts).encode("a", false), Ids{0});
  parts["post_processor"]["type"] = "RobertaProcessing";
  EXPECT_EQ(open_tokenizer(parts).encode_pair("a", "ab", &types), (Ids{2, 0, 3, 3, 6, 3}));
  EXPECT_EQ(types, Ids(6, 0));
}

TEST(Encode, ThreadsShareATokenizer) {
  const Tokenizer tokenizer = open_tokenizer(small_tokenizer());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&tokenizer] {
      for (int k = 0; k < 200; ++k) EXPECT_EQ(tokenizer.encode("abcab"), (Ids{7, 6}));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

}  // namespace weft
