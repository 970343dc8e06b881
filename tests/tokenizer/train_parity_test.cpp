#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "support/oracle_python.hpp"
#include "support/temporary_folder.hpp"
#include "weft/tokenizer.hpp"

namespace weft {

namespace {

TEST(TokenizerParity, TrainingGivesTheVocabularyOfHuggingFace) {
  WEFT_NEEDS_ORACLE();
  constexpr int64_t kSize = 4000;
  const test::TemporaryFolder own, other;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_TOKENIZER_TEXTS))
    if (entry.path().extension() == ".md") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::string command =
      test::oracle_python() + " " WEFT_TOKENIZER_TRAIN " " + other.path() + " " + std::to_string(kSize);
  for (const std::string& path : paths) command += " " + path;
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  train_bpe(paths, own.path(), {.vocabulary_size = kSize});
  const Tokenizer mine = Tokenizer::open(own.path()), wanted = Tokenizer::open(other.path());
  ASSERT_EQ(mine.vocabulary_size(), wanted.vocabulary_size());
  for (int64_t id = 0; id < kSize; ++id) ASSERT_EQ(mine.token_of(id), wanted.token_of(id)) << id;
}

}  // namespace

}  // namespace weft
