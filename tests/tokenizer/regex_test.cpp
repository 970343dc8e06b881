#include "tokenizer/regex.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "support/expect_error.hpp"
#include "tokenizer/byte_level.hpp"

namespace weft::tokenizer {

namespace {

using Words = std::vector<std::string>;

Words matches(const std::string& expression, std::string_view text) {
  const Regex regex(expression, "test");
  Words found;
  each_match(regex, text,
             [&](size_t begin, size_t end) { found.emplace_back(text.substr(begin, end - begin)); });
  return found;
}

TEST(Regex, NamesAConstructThatItDoesNotHave) {
  const auto refused = [](const char* expression, const char* name) {
    EXPECT_ERROR(compile_regex(expression, "tokenizer.json"), WEFT_UNIMPLEMENTED, name);
  };
  refused("(?<=a)b", "lookbehind");
  refused("(a)\\1", "reference to a group");
  refused("[[:alpha:]]", "POSIX");
  refused("[a-z&&[^b]]", "intersection");
  refused("\\p{Klingon}", "Klingon");
  refused("(?<name>a)", "(?<n");
}

TEST(Regex, SaysWhatIsWrong) {
  const auto wrong = [](const char* expression) {
    EXPECT_ERROR(compile_regex(expression, "tokenizer.json"), WEFT_DATA_LOSS,
                 "tokenizer.json: the regular expression");
  };
  for (const char* expression :
       {"(a", "a)", "[a", "*a", "[b-a]", "a{3,1}", "\\p{L", "\\x{110000}", "a{1,5000}", "\\"})
    wrong(expression);
}

TEST(Regex, CutsWordsAtSpacesAndContractions) {
  EXPECT_EQ(matches(kByteLevelWords, "I don't  know é42!\n\n x"),
            (Words{"I", " don", "'t", " ", " know", " é", "42", "!", "\n\n", " x"}));
}

TEST(Regex, RepeatsGreedilyLazilyAndPossessively) {
  EXPECT_EQ(matches("a+ab", "aaab"), Words{"aaab"});
  EXPECT_EQ(matches("a++ab", "aaab"), Words{});
  EXPECT_EQ(matches("a+?", "aa"), (Words{"a", "a"}));
  EXPECT_EQ(matches("(?:ab){2,3}", "abababab"), Words{"ababab"});
  EXPECT_EQ(matches("(?:ab){2,3}?", "abababab"), (Words{"abab", "abab"}));
  EXPECT_EQ(matches("(?>a|ab)c", "abc"), Words{});
  EXPECT_EQ(matches("x{,2}y", "xxxy"), Words{"xxy"});
}

TEST(Regex, IgnoresCaseWhereItIsTold) {
  EXPECT_EQ(matches("(?i:'s|k)S", "'SS 'ss kS \u212AS"), (Words{"'SS", "kS", "\u212AS"}));
  EXPECT_EQ(matches("(?i:[a-c])", "aBd"), (Words{"a", "B"}));
}

TEST(Regex, LooksAheadAndAtPlaces) {
  EXPECT_EQ(matches("\\s+(?!\\S)", "a   b  "), (Words{"  ", "  "}));
  EXPECT_EQ(matches("a(?=b)", "abac"), Words{"a"});
  EXPECT_EQ(matches("^.", "ab\ncd"), (Words{"a", "c"}));
  EXPECT_EQ(matches("\\bx", "x ax"), Words{"x"});
}

TEST(Regex, NestsAndNegatesClasses) {
  EXPECT_EQ(matches("[^(\\s|[.,])]+", "ab.c d"), (Words{"ab", "c", "d"}));
  EXPECT_EQ(matches("[\\p{Lu}\\d\\-]+", "aB-9c"), Words{"B-9"});
  EXPECT_EQ(matches("\\P{L}+", "a1é2"), (Words{"1", "2"}));
}

TEST(Regex, MatchesLongRunsAsShortOnes) {
  for (const size_t count : {3u, 10'000u}) {
    const std::string spaces(count, ' ');
    EXPECT_EQ(matches(R"(\s*[\r\n]+|\s+(?!\S)|\s+|x)", spaces + "x"), (Words{spaces.substr(1), " ", "x"}))
        << count;
  }
}

TEST(Regex, TakesTimeThatGrowsWithTheTextAlone) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(matches("(?:a+)+b", std::string(500, 'a')), Words{});
  EXPECT_EQ(matches("(?:a|a|aa)*c", std::string(500, 'a')), Words{});
  EXPECT_EQ(matches(kByteLevelWords, std::string(1000000, ' ') + "x").size(), 2u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
}

}  // namespace

}  // namespace weft::tokenizer
