// The bytes of a text that its tokens stand for.
#include <gtest/gtest.h>

#include "tokenizer/files.hpp"
#include "weft/token_spans.hpp"

namespace weft {

namespace {

using test::Json;
using Texts = std::vector<std::string>;

// Returns a WordPiece tokenizer of these words, the first of which is the unknown one.
Tokenizer word_piece(const Texts& words, bool lower) {
  Json vocabulary;
  for (size_t i = 0; i < words.size(); ++i) vocabulary[words[i]] = i;
  return test::open_tokenizer({{"normalizer",
                                {{"type", "BertNormalizer"},
                                 {"clean_text", true},
                                 {"handle_chinese_chars", true},
                                 {"strip_accents", nullptr},
                                 {"lowercase", lower}}},
                               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                               {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                               {"model",
                                {{"type", "WordPiece"},
                                 {"unk_token", words[0]},
                                 {"continuing_subword_prefix", "##"},
                                 {"max_input_chars_per_word", 100},
                                 {"vocab", vocabulary}}}});
}

// Returns a byte-level tokenizer whose tokens are bytes, but for the two bytes that merge.
Tokenizer byte_level() {
  Json vocabulary;
  // The bytes of "a é漢": "Ã" and "©" spell é, "æ", "¼" and "¢" spell 漢.
  for (const char* token : {"a", "Ġ", "Ã", "©", "æ", "¼", "¢", "©æ", "Ġa"})
    vocabulary[token] = vocabulary.size();
  return test::open_tokenizer(
      {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
       {"decoder", {{"type", "ByteLevel"}}},
       {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"© æ", "Ġ a"}}}}});
}

// Returns the text of each token.
Texts texts_of(const TokenSpans& spans, const std::string& text) {
  Texts texts;
  size_t begin = 0;
  for (const TokenSpan& span : spans.encode(text).spans) {
    EXPECT_LE(begin, span.begin) << text;
    EXPECT_LE(span.begin, span.end) << text;
    EXPECT_LE(span.end, text.size()) << text;
    begin = span.begin;
    texts.push_back(text.substr(span.begin, span.end - span.begin));
  }
  return texts;
}

TEST(TokenSpans, HaveTheTextOfWordsWhateverTheNormalizerChanges) {
  const TokenSpans spans(word_piece({"[UNK]", "the", "cafe", "##s", ".", "x", "漢", "i"}, true));
  EXPECT_EQ(texts_of(spans, " THE  Cafés. The"), (Texts{"THE", "Café", "s", ".", "The"}));
  EXPECT_EQ(texts_of(spans, "cafe\u0301s\u00a0x"), (Texts{"cafe\u0301", "s", "x"}));
  EXPECT_EQ(texts_of(spans, "x漢x İ"), (Texts{"x", "漢", "x", "İ"}));
  EXPECT_EQ(texts_of(spans, "the\u200b cafe"), (Texts{"the", "cafe"}));
  EXPECT_EQ(texts_of(spans, ""), Texts());
  const TokenSpans::Encoded found = spans.encode("The cafes");
  EXPECT_EQ(found.ids, (std::vector<int64_t>{1, 2, 3}));
}

TEST(TokenSpans, EndAtTheNextTokenForUnknownOnes) {
  const TokenSpans spans(word_piece({"[UNK]", "the", "end", "."}, false));
  EXPECT_EQ(texts_of(spans, "☃the the the end"), (Texts{"☃the", "the", "the", "end"}));
  EXPECT_EQ(texts_of(spans, "☃the ❄end. the"), (Texts{"☃the", "❄end", ".", "the"}));
  EXPECT_EQ(texts_of(spans, "ab!? end"), (Texts{"ab", "!", "?", "end"}));
  EXPECT_EQ(texts_of(spans, "end 漢字"), (Texts{"end", "漢", "字"}));
  EXPECT_EQ(texts_of(spans, "☃"), Texts{"☃"});
}

TEST(TokenSpans, AreTheWholeCharacterForItsParts) {
  const TokenSpans spans(byte_level());
  EXPECT_EQ(texts_of(spans, "a a é漢 a"), (Texts{"a", "a", " ", "é", "é漢", "漢", "漢", "a"}));
  EXPECT_EQ(texts_of(spans, "  aa"), (Texts{" ", "a", "a"}));
}

TEST(TokenSpans, WorkWithoutPieces) {
  EXPECT_EQ(texts_of(TokenSpans(test::open_tokenizer(test::small_tokenizer())), "abcd cab"),
            (Texts{"abc", "d", " ", "c", "ab"}));
}

}  // namespace

}  // namespace weft
