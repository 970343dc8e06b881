// Tokenizers of libraries of kind "tokenizer": the one of samples/tokenizer_c, and classes with mistakes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/tokenizer.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int64_t>;

class TokenizerClass : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_TOKENIZERS, 1); }

  Tokenizer open(const std::string& name, const std::string& more = "") const {
    folder_.file("tokenizer_config.json", R"({"tokenizer_class": ")" + name + "\"" + more + "}");
    return Tokenizer::open(folder_.path());
  }
  TemporaryFolder folder_;
};

TEST_F(TokenizerClass, HasATokenForEachCharacterInTheSample) {
  folder_.file("characters.txt", "ab\xc3\xa9 ");
  const Tokenizer tokenizer = open(
      "CharacterTokenizer", R"(, "padding_side": "left", "truncation_side": "left", "chat_template": "x")");
  EXPECT_EQ(tokenizer.encode("b\xc3\xa9 z"), (Ids{3, 4, 5, 0, 1}));
  EXPECT_EQ(tokenizer.encode("b\xc3\xa9 z", false), (Ids{3, 4, 5, 0}));
  EXPECT_EQ(tokenizer.encode("\xff", false), Ids{0});
  EXPECT_EQ(tokenizer.decode({3, 4, 5, 0, 1, 99, -1}), "b\xc3\xa9 ");
  EXPECT_EQ(tokenizer.decode({2, 1}, false), "a<end>");
  EXPECT_EQ(tokenizer.vocabulary_size(), 6);
  EXPECT_EQ(tokenizer.id_of("\xc3\xa9"), 4);
  EXPECT_EQ(tokenizer.id_of("c"), std::nullopt);
  EXPECT_EQ(tokenizer.token_of(4), "\xc3\xa9");
  EXPECT_EQ(tokenizer.token_of(6), "");
  EXPECT_EQ(tokenizer.id_of(Tokenizer::Role::kEnd), 1);
  EXPECT_EQ(tokenizer.id_of(Tokenizer::Role::kUnknown), 0);
  EXPECT_EQ(tokenizer.id_of(Tokenizer::Role::kPadding), std::nullopt);
  EXPECT_TRUE(tokenizer.pads_left());
  EXPECT_TRUE(tokenizer.truncates_left());
  EXPECT_EQ(tokenizer.chat_template(), "x");
  EXPECT_TRUE(Tokenizer::is_in(folder_.path()));
  EXPECT_ERROR(tokenizer.encode_pair("a", "b"), WEFT_UNIMPLEMENTED, "CharacterTokenizer", "no pairs");
  Tokenizer::StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.add(3) + stream.add(1) + stream.add(4) + stream.end(), "b\xc3\xa9");
}

TEST_F(TokenizerClass, SavesItsFilesAndHasTheirDigest) {
  folder_.file("characters.txt", "ab");
  const Tokenizer first = open("CharacterTokenizer");
  const TemporaryFolder other;
  first.save(other.path());
  EXPECT_TRUE(fs::exists(fs::path(other.path()) / "characters.txt"));
  const Tokenizer copied = Tokenizer::open(other.path());
  EXPECT_EQ(copied.digest(), first.digest());
  EXPECT_EQ(copied.encode("ba"), first.encode("ba"));
  other.file("characters.txt", "ba");
  EXPECT_NE(Tokenizer::open(other.path()).digest(), first.digest());
}

TEST_F(TokenizerClass, TellsWhatIsWrongWithItsFiles) {
  EXPECT_ERROR(open("CharacterTokenizer"), WEFT_NOT_FOUND, "class CharacterTokenizer", "characters.txt",
               "be opened");
  folder_.file("characters.txt", "abca");
  EXPECT_ERROR(open("CharacterTokenizer"), WEFT_DATA_LOSS, "characters.txt", "character twice");
}

TEST_F(TokenizerClass, IsNamedIfNoLibraryHasIt) {
  EXPECT_ERROR(open("NobodysTokenizer"), WEFT_NOT_FOUND, "NobodysTokenizer", "no plugin", "tokenizer.json");
  EXPECT_ERROR(open("../x"), WEFT_NOT_FOUND, "\"../x\"");
  EXPECT_FALSE(Tokenizer::is_in(folder_.path()));
}

TEST_F(TokenizerClass, IsOfTheVersionThatItsNameHas) {
  folder_.file("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n");
  EXPECT_ERROR(open("FiveTokens@2"), WEFT_NOT_FOUND, "FiveTokens", "version 2", "1.0.0");
  EXPECT_ERROR(open("BertTokenizer@2"), WEFT_NOT_FOUND, "BertTokenizer");
  EXPECT_ERROR(open("FiveTokens@"), WEFT_INVALID_ARGUMENT, "\"FiveTokens@\"");
  EXPECT_EQ(open("FiveTokens@1").encode("a"), Ids{'a' % 5});
}

TEST_F(TokenizerClass, CountsBeforeTheFilesThatWeftReads) {
  folder_.file("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n");
  EXPECT_EQ(open("FiveTokens").encode("a"), Ids{'a' % 5});
  EXPECT_EQ(open("BertTokenizer").encode("a"), (Ids{1, 3, 2}));
}

TEST_F(TokenizerClass, EncodesPairsWithTypes) {
  Ids types;
  EXPECT_EQ(open("FiveTokens").encode_pair("ab", "c", &types), (Ids{'a' % 5, 'b' % 5, 'c' % 5}));
  EXPECT_EQ(types, (Ids{0, 0, 1}));
  EXPECT_EQ(open("FiveTokens").id_of(Tokenizer::Role::kEnd), 4);
}

TEST_F(TokenizerClass, WithAMistakeIsRefused) {
  EXPECT_ERROR(open("NoTokens"), WEFT_FAILED_PRECONDITION, "NoTokens", "mistaken_tokenizers", "size is 0");
  EXPECT_ERROR(open("OpensNothing"), WEFT_FAILED_PRECONDITION, "without", "a tokenizer");
  EXPECT_ERROR(open("RoleBeyond"), WEFT_FAILED_PRECONDITION, "role returned", "id 5", "size 5");
  EXPECT_ERROR(open("FileOutside"), WEFT_FAILED_PRECONDITION, "../secrets.txt", "without folders");
  EXPECT_ERROR(open("MissingFile"), WEFT_NOT_FOUND, "letters.txt");
  EXPECT_ERROR(open("NoDecode"), WEFT_FAILED_PRECONDITION, "function decode");
  EXPECT_ERROR(open("IdsBeyond").encode("a"), WEFT_FAILED_PRECONDITION, "encode returned", "id 5", "[0, 5)");
  EXPECT_ERROR(open("Refuses").encode("a"), WEFT_INVALID_ARGUMENT, "Refuses", "no token");
  EXPECT_ERROR(open("OneType").encode_pair("a", "b"), WEFT_FAILED_PRECONDITION, "2 ids and 1 types");
}

}  // namespace
}  // namespace weft::test
