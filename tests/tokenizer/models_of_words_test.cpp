// The models Unigram, WordPiece and WordLevel, and what belongs to WordPiece.
#include <gtest/gtest.h>

#include <string>
#include <vector>
#include <weft/error.hpp>

#include "tokenizer/interfaces.hpp"

namespace weft::tokenizer {
namespace {

using Ids = std::vector<int64_t>;

template <typename Make>
Ids encode(Make make, const char* part, const std::string& piece) {
  Ids ids;
  Limits limits(piece.size());
  make(Json::parse(part), "tokenizer.json")->encode(piece, ids, limits);
  return ids;
}
template <typename Make>
weft_status status_of(Make make, const char* part, const std::string& piece = "") {
  try {
    const auto model = make(Json::parse(part), "tokenizer.json");
    Ids ids;
    Limits limits(piece.size());
    if (!piece.empty()) model->encode(piece, ids, limits);
  } catch (const Error& error) {
    return error.status();
  }
  return WEFT_OK;
}

const char* const kUnigram = R"({"type": "Unigram", "unk_id": 0, "vocab":
  [["<unk>", 0], ["a", -2], ["b", -2], ["ab", -3], ["abc", -9], ["c", -1.5], ["é", -4]]})";

TEST(Unigram, RefusesDamagedVocabularies) {
  EXPECT_EQ(status_of(make_unigram, R"({"vocab": [["a"]]})"), WEFT_DATA_LOSS);
  EXPECT_EQ(status_of(make_unigram, R"({"vocab": [["a", "b"]]})"), WEFT_DATA_LOSS);
  EXPECT_EQ(status_of(make_unigram, R"({"vocab": [["a", 0]], "unk_id": 1})"), WEFT_DATA_LOSS);
  EXPECT_EQ(status_of(make_unigram, R"({"vocab": [["a", 0]]})", "b"), WEFT_INVALID_ARGUMENT);
}

TEST(Unigram, TakesTheTokensOfTheLargestSum) {
  EXPECT_EQ(encode(make_unigram, kUnigram, "ab"), (Ids{3}));
  EXPECT_EQ(encode(make_unigram, kUnigram, "abc"), (Ids{3, 5}));
  EXPECT_EQ(encode(make_unigram, kUnigram, "baé"), (Ids{2, 1, 6}));
}

TEST(Unigram, JoinsUnknownCharacters) {
  EXPECT_EQ(encode(make_unigram, kUnigram, "xyaz"), (Ids{0, 1, 0}));
  EXPECT_EQ(encode(make_unigram, kUnigram, "中文"), (Ids{0}));
}

TEST(Unigram, FallsBackToBytesWhereAllAreTokens) {
  const char* const part = R"({"unk_id": 0, "byte_fallback": true, "vocab":
    [["<unk>", 0], ["a", -1], ["<0xC3>", 0], ["<0xA9>", 0]]})";
  EXPECT_EQ(encode(make_unigram, part, "aé"), (Ids{1, 2, 3}));
  EXPECT_EQ(encode(make_unigram, part, "aè"), (Ids{1, 0}));
}

// Behind x, a float can keep multiples of two alone.
TEST(Unigram, RoundsTheSumsOfSentencePiece) {
  const std::string rest =
      R"(, "unk_id": 0, "vocab": [["<unk>", 0], ["x", -16777216], ["f", -0.9], ["ff", -1.3]]})";
  EXPECT_EQ(encode(make_unigram, (R"({"type": "Unigram")" + rest).c_str(), "xff"), (Ids{1, 3}));
  EXPECT_EQ(encode(make_unigram, (R"({"type": "SentencePieceUnigram")" + rest).c_str(), "xff"),
            (Ids{1, 2, 2}));
}

TEST(Unigram, DoesNotSpellTokensWithoutAScore) {
  const char* const part = R"({"type": "SentencePieceUnigram", "unk_id": 0, "byte_fallback": true, "vocab":
    [["<unk>", null], ["<", -2], ["s", -2], [">", -2], ["<s>", null], ["<0xC3>", null], ["<0xA9>", null]]})";
  EXPECT_EQ(encode(make_unigram, part, "<s>"), (Ids{1, 2, 3}));
  EXPECT_EQ(encode(make_unigram, part, "sé"), (Ids{2, 5, 6}));
  EXPECT_EQ(status_of(make_unigram, R"({"vocab": [["a", null]]})"), WEFT_DATA_LOSS);
}

const char* const kWordPiece = R"({"unk_token": "[UNK]", "max_input_chars_per_word": 6, "vocab":
  {"[UNK]": 0, "un": 1, "##aff": 2, "##able": 3, "u": 4, "##n": 5, "é": 6, "##é": 7}})";

TEST(WordPiece, TakesTheLongestTokens) {
  EXPECT_EQ(encode(make_word_piece, kWordPiece, "unaff"), (Ids{1, 2}));
  EXPECT_EQ(encode(make_word_piece, kWordPiece, "unn"), (Ids{1, 5}));
  EXPECT_EQ(encode(make_word_piece, kWordPiece, "éé"), (Ids{6, 7}));
}

TEST(WordPiece, DoesNotKnowWordsThatDoNotEndOrAreTooLong) {
  EXPECT_EQ(encode(make_word_piece, kWordPiece, "unx"), (Ids{0}));
  EXPECT_EQ(encode(make_word_piece, kWordPiece, "éééééé"), (Ids{6, 7, 7, 7, 7, 7}));
  EXPECT_EQ(encode(make_word_piece, kWordPiece, "ééééééé"), (Ids{0}));
  EXPECT_EQ(status_of(make_word_piece, R"({"unk_token": "[UNK]", "vocab": {"a": 0}})", "a"), WEFT_OK);
  EXPECT_EQ(status_of(make_word_piece, R"({"unk_token": "[UNK]", "vocab": {"a": 0}})", "b"),
            WEFT_INVALID_ARGUMENT);
}

TEST(WordLevel, KnowsWholeWords) {
  const char* const part = R"({"unk_token": "<unk>", "vocab": {"<unk>": 0, "word": 1}})";
  EXPECT_EQ(encode(make_word_level, part, "word"), (Ids{1}));
  EXPECT_EQ(encode(make_word_level, part, "words"), (Ids{0}));
  EXPECT_EQ(status_of(make_word_level, R"({"vocab": {"a": -1}})"), WEFT_DATA_LOSS);
}

TEST(WordPiecePreTokenizer, CutsAtSpacesAndPunctuation) {
  Pieces pieces;
  pieces.text = " Don't  stop!? ";
  pieces.list = {{0, pieces.text.size(), true}};
  Limits limits(pieces.text.size());
  make_bert_pre_tokenizer(Json::object(), "tokenizer.json")->split(pieces, limits);
  std::vector<std::string> words;
  for (const auto& piece : pieces.list) words.emplace_back(pieces.at(piece));
  EXPECT_EQ(words, (std::vector<std::string>{"Don", "'", "t", "stop", "!", "?"}));
}

TEST(WordPieceDecoder, JoinsWordsAndCleansUp) {
  const auto decode = [](const char* part, std::vector<std::string> tokens) {
    Limits limits(100);
    make_word_piece_decoder(Json::parse(part), "tokenizer.json")->decode(tokens, limits);
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
  };
  EXPECT_EQ(decode(R"({"prefix": "##", "cleanup": true})", {"un", "##aff", "word", "!"}), "unaff word!");
  EXPECT_EQ(decode(R"({"prefix": "##", "cleanup": false})", {"##un", "word", "!"}), "##un word !");
}

}  // namespace
}  // namespace weft::tokenizer
