#include "tokenizer/fuzz.hpp"

#include <gtest/gtest.h>

#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

TEST(FuzzTokenizers, DamagedFilesAndRandomBytesAreReadOrRefused) {
  const TemporaryFolder folder;
  const FuzzResult result = fuzz_tokenizers(std::chrono::seconds(3), 11, folder.path());
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.texts, 100);
  EXPECT_GT(result.opened, 10);
  EXPECT_GT(result.refused, 10);
}

}  // namespace

}  // namespace weft::test
