// Regular expressions against Oniguruma, as Hugging Face's tokenizers has it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "support/oracle_python.hpp"
#include "support/temporary_folder.hpp"
#include "tokenizer/regex.hpp"
#include "tokenizer/splitting.hpp"
#include "weft/error.hpp"

namespace weft::tokenizer {

namespace {

std::string pieces_of(const Regex& regex, const std::string& text) {
  Parts parts;
  Limits limits(text.size());
  regex.each_match(text, limits, [&](size_t begin, size_t end) { add_match(parts, begin, end); });
  add_rest(parts, text.size());
  std::string joined;
  for (const Part& part : parts)
    if (part.end > part.begin)
      joined += (joined.empty() ? "" : "\x1f") + text.substr(part.begin, part.end - part.begin);
  return joined;
}

TEST(PatternParity, CutsAreThoseOfOniguruma) {
  WEFT_NEEDS_ORACLE();
  const char* full = std::getenv("WEFT_TEST_FULL");
  const bool is_full = full != nullptr && std::string(full) == "1";
  const char* seed = std::getenv("WEFT_TEST_SEED");
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/cases.bin";
  const std::string command = test::oracle_python() + " " WEFT_TOKENIZER_PATTERNS " " + path +
                              (is_full ? " 300000 " : " 25000 ") + (seed ? seed : "7");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream file(path, std::ios::binary);
  int cases = 0, refused = 0, unlike = 0;
  for (std::string pattern, text, pieces; std::getline(file, pattern, '\0') &&
                                          std::getline(file, text, '\0') && std::getline(file, pieces, '\0');
       ++cases) {
    try {
      const std::string cut = pieces_of(Regex(pattern, "test"), text);
      if (cut == pieces || ++unlike > 10) continue;
      EXPECT_EQ(cut, pieces) << "pattern " << pattern << "\n   text " << text;
    } catch (const Error& error) {
      if (++refused <= 3) std::printf("%s\n", error.what());
    }
  }
  std::printf("%d cases, %d refused\n", cases, refused);
  EXPECT_EQ(unlike, 0);
  EXPECT_GE(cases, 25'000);
  // What takes Weft too many steps.
  EXPECT_LE(refused, cases / 1000);
}

}  // namespace

}  // namespace weft::tokenizer
