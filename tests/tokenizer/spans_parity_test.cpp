// The bytes that tokens come from, against the offsets of transformers' fast tokenizers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/oracle_python.hpp"
#include "support/temporary_folder.hpp"
#include "weft/token_spans.hpp"

namespace weft {

namespace {

namespace fs = std::filesystem;

std::string shown(const std::string& text, const TokenSpan& span) {
  return std::to_string(span.begin) + "-" + std::to_string(span.end) + " \"" +
         text.substr(span.begin, span.end - span.begin) + "\"";
}

// Tokens of white space stand for nothing that an answer has.
bool is_blank(const std::string& text, const TokenSpan& span) {
  return text.substr(span.begin, span.end - span.begin).find_first_not_of(" \t\r\n") == std::string::npos;
}

TEST(TokenSpansParity, SpansAreTransformersOffsets) {
  WEFT_NEEDS_ORACLE();
  const test::TemporaryFolder folder;
  const std::string command = test::oracle_python() + " " WEFT_TOKENIZER_SPANS " " + folder.path();
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  int kinds = 0, compared = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    ++kinds;
    const TokenSpans spans(Tokenizer::open(entry.path().string()));
    std::ifstream file(entry.path() / "spans.json");
    for (const auto& [text, expected] :
         nlohmann::json::parse(file).get<std::vector<std::pair<std::string, nlohmann::json>>>()) {
      const TokenSpans::Encoded found = spans.encode(text);
      ASSERT_EQ(found.ids.size(), expected.size()) << entry.path() << ": " << text;
      ASSERT_EQ(found.spans.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(found.ids[i], expected[i][0].get<int64_t>());
        const TokenSpan wanted{expected[i][1].get<size_t>(), expected[i][2].get<size_t>()};
        if (is_blank(text, wanted) && is_blank(text, found.spans[i])) continue;
        // The space that is put before a text, which transformers counts as its first character.
        if (i == 0 && found.spans[0] == TokenSpan() && wanted.begin == 0) continue;
        ++compared;
        EXPECT_EQ(found.spans[i], wanted)
            << entry.path().filename() << ": token " << i << ": " << shown(text, found.spans[i])
            << ", must be " << shown(text, wanted) << " of " << text;
      }
    }
  }
  EXPECT_EQ(kinds, 6);
  EXPECT_GT(compared, 2000);
}

}  // namespace

}  // namespace weft
