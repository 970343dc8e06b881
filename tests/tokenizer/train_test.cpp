#include <gtest/gtest.h>

#include "base/files.hpp"
#include "support/expect_error.hpp"
#include "support/file_size_limit.hpp"
#include "tokenizer/files.hpp"

namespace weft {

namespace {

using test::TemporaryFolder;

TEST(TrainTokenizer, RefusesWhatItCannotMeet) {
  const TemporaryFolder folder;
  const std::string text = folder.file("text", "a b");
  EXPECT_ERROR(train_bpe({}, folder.path(), {}), WEFT_INVALID_ARGUMENT, "least one");
  EXPECT_ERROR(train_bpe({folder.path() + "/none"}, folder.path(), {}), WEFT_NOT_FOUND, "/none");
  EXPECT_ERROR(train_bpe({text}, folder.path(), {.vocabulary_size = 256}), WEFT_INVALID_ARGUMENT, "257");
  EXPECT_ERROR(train_bpe({text}, folder.path(), {.special_tokens = {"<x>", "<x>"}}), WEFT_INVALID_ARGUMENT,
               "<x>", "twice");
}

TEST(TrainTokenizer, MergesTheMostFrequentPairs) {
  const TemporaryFolder folder;
  const std::string text = folder.file("text", "aba aba aba ab\ncd");
  train_bpe({text}, folder.path(), {.vocabulary_size = 260});
  const Tokenizer tokenizer = Tokenizer::open(folder.path());
  EXPECT_EQ(tokenizer.vocabulary_size(), 260);
  EXPECT_EQ(tokenizer.token_of(0), "<|endoftext|>");
  EXPECT_EQ(tokenizer.token_of(257), "ab");
  EXPECT_EQ(tokenizer.token_of(258), "Ġab");
  EXPECT_EQ(tokenizer.id_of(Tokenizer::Role::kEnd), 0);
  const std::string all = "abacus \xC3\xA9 \n<|endoftext|>x";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all), false), all);
}

TEST(TrainTokenizer, StopsAtPairsThatAreTooRare) {
  const TemporaryFolder folder;
  const std::string text = folder.file("text", "ab ab cd");
  train_bpe({text}, folder.path(), {.vocabulary_size = 1000, .min_frequency = 2});
  EXPECT_EQ(Tokenizer::open(folder.path()).vocabulary_size(), 258);
}

TEST(TrainTokenizer, KeepsTheTokenizerThatWasThereWhereTheNewOneHasNoRoom) {
  const TemporaryFolder folder;
  const std::string text = folder.file("text", "ab ab cd cd"), saved = folder.path() + "/saved",
                    other = folder.path() + "/other/folder";
  train_bpe({text}, saved, {.vocabulary_size = 257});
  const std::string before = read_file(saved + "/tokenizer.json", 1 << 20);
  {
    const test::FileSizeLimit limit(before.size());
    EXPECT_ERROR(train_bpe({text}, saved, {.vocabulary_size = 259}), WEFT_RESOURCE_EXHAUSTED,
                 "tokenizer.json", "too large");
    EXPECT_ERROR(train_bpe({text}, other, {.vocabulary_size = 259}), WEFT_RESOURCE_EXHAUSTED, other);
  }
  EXPECT_EQ(read_file(saved + "/tokenizer.json", 1 << 20), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(saved), {}), 2);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/other"));
}

// The second of two files that has no room keeps the first one, too.
TEST(TrainTokenizer, ReplacesBothFilesOrNone) {
  const TemporaryFolder folder;
  const std::string text = folder.file("text", "ab ab cd cd"), path = folder.path() + "/tokenizer.json";
  folder.file("tokenizer.json", "before");
  std::filesystem::create_directory(folder.path() + "/tokenizer_config.json");
  EXPECT_ERROR(train_bpe({text}, folder.path(), {.vocabulary_size = 259}), WEFT_UNAVAILABLE,
               "tokenizer_config.json", "Is a directory");
  EXPECT_EQ(read_file(path, 1 << 20), "before");
}

TEST(TrainTokenizer, GivesTheSameForTheSameFiles) {
  const TemporaryFolder first, second;
  std::string words;
  for (int i = 0; i < 2000; ++i) words += std::to_string(i * 7919 % 1009) + (i % 5 ? " " : "\n");
  const std::string text = first.file("text", words);
  for (const TemporaryFolder* folder : {&first, &second})
    train_bpe({text}, folder->path(), {.vocabulary_size = 400});
  EXPECT_EQ(Tokenizer::open(first.path()).digest(), Tokenizer::open(second.path()).digest());
}

}  // namespace

}  // namespace weft
