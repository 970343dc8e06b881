#include "tokenizer/regex.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "tokenizer/byte_level.hpp"

namespace weft::tokenizer {

namespace {

using Words = std::vector<std::string>;

Words matches(const std::string& expression, std::string_view text) {
  const Regex regex(expression, "test");
  Words found;
  Limits limits(text.size());
  regex.each_match(text, limits,
                   [&](size_t begin, size_t end) { found.emplace_back(text.substr(begin, end - begin)); });
  return found;
}

TEST(Regex, NamesAConstructThatItDoesNotHave) {
  const auto refused = [](const char* expression, const char* name) {
    EXPECT_ERROR(compile_regex(expression, "tokenizer.json"), WEFT_UNIMPLEMENTED, name);
  };
  refused("(?<=a)b", "lookbehind");
  refused("(a)\\200", "number above 177");
  refused("(?<x>a)\\k<x+1>", "of recursion");
  refused("[[:alpha:]]", "POSIX");
  refused("[a-z&&[^b]]", "intersection");
  refused("\\p{Klingon}", "Klingon");
  refused("(?P<name>a)", "(?P<");
}

TEST(Regex, SaysWhatIsWrong) {
  const auto wrong = [](const char* expression) {
    EXPECT_ERROR(compile_regex(expression, "tokenizer.json"), WEFT_DATA_LOSS, "tokenizer.json");
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

TEST(Regex, RefusesAReferenceThatMeansNoGroup) {
  const auto wrong = [](const char* expression, const char* why) {
    EXPECT_ERROR(compile_regex(expression, "tokenizer.json"), WEFT_DATA_LOSS, expression, why);
  };
  wrong("(a)\\2", "a group");
  wrong("(a)\\k<-2>", "a group");
  wrong("(a)\\k<999999999999>", "999999999999");
  wrong("\\k<x>(?<x>a)", "no group");
  wrong("(?<x>a)\\1", "by number");
  wrong("(?<x", "an end");
  wrong("(?<>a)", "a letter");
  wrong("(?<1>a)", "a letter");
}

TEST(Regex, RefersToTheTextOfAGroup) {
  EXPECT_EQ(matches("(a|b)\\1", "aabbab"), (Words{"aa", "bb"}));
  EXPECT_EQ(matches("(?<x>.)(?<y>.)\\k<y>\\k'x'", "abba"), Words{"abba"});
  EXPECT_EQ(matches("(a)(b)\\k<-1>\\k<-2>\\k<1>", "abbaa"), Words{"abbaa"});
  EXPECT_EQ(matches("(?:(?<x>a)|(?<x>b))\\k<x>", "ab aa bb"), (Words{"aa", "bb"}));
  EXPECT_EQ(matches("(?i:(a)\\1) (b)\\2", "aA bB aA bb"), Words{"aA bb"});
  EXPECT_EQ(matches("(?i:(ss)\\1)", "ssSS ssß"), Words{"ssSS"});  // a character is compared with one
  EXPECT_EQ(matches("(['\"]).*?\\1", "'a\"b' \"c'd\""), (Words{"'a\"b'", "\"c'd\""}));
}

TEST(Regex, ReadsOctalNumbersWhereThereIsNoSuchGroup) {
  EXPECT_EQ(matches("\\101\\0101|[\\102\\8]", "A\b1 B8"), (Words{"A\b1", "B", "8"}));
  EXPECT_EQ(matches("(a)\\12|\\81", "a\n 81"), (Words{"a\n", "81"}));
}

TEST(Regex, HasNoTextForAGroupThatDidNotMatch) {
  EXPECT_EQ(matches("(?:(a)|b)\\1", "b aa"), Words{"aa"});
  EXPECT_EQ(matches("\\2(a)(b)", "bab"), Words{});
  EXPECT_EQ(matches("(a\\1)", "aa"), Words{});
  EXPECT_EQ(matches("(\\1a|b)+", "bba"), Words{"bb"});  // open again, the group has no text
  EXPECT_EQ(matches("(?!(a))\\1b", "ab b"), Words{});
}

TEST(Regex, RestoresGroupsWhereItGoesBack) {
  EXPECT_EQ(matches("(?:(ab|a)(bc)?)\\1", "ababc"), Words{"abab"});
  EXPECT_EQ(matches("(?>(a|ab))c\\1", "acaabca"), Words{"aca"});
  EXPECT_EQ(matches("(?=(a+))a\\1", "aaab"), Words{});
  EXPECT_EQ(matches("(?:(?>(a))b|a)c?\\1?", "aab"), (Words{"a", "ab"}));
}

TEST(Regex, EndsLoopsOfNothingWithReferences) {
  EXPECT_EQ(matches("(a*)*\\1b", "aab"), Words{"aab"});
  EXPECT_EQ(matches("(?:(a*)\\1)+b", "aaab"), Words{"aab"});
  EXPECT_EQ(matches("(?:(a)|(b)|\\2\\1)*c", "abbac"), Words{"abbac"});
  EXPECT_EQ(matches("(?:(x?)\\1)*+y", "xxxxy"), Words{"xxxxy"});
}

TEST(Regex, FoldsCaseToSeveralCharacters) {
  EXPECT_EQ(matches("(?i:ss)", "aßẞsSſs"), (Words{"ß", "ẞ", "sS", "ſs"}));
  EXPECT_EQ(matches("(?i:ß)", "ss ẞ s"), (Words{"ss", "ẞ"}));
  EXPECT_EQ(matches("(?i:ffi)", "ﬃ FFI ﬀi"), (Words{"ﬃ", "FFI"}));
  EXPECT_EQ(matches("(?i:ﬁ)", "fi FI"), (Words{"fi", "FI"}));
  EXPECT_EQ(matches("(?i:st)", "ﬅ ﬆ"), (Words{"ﬅ", "ﬆ"}));
  EXPECT_EQ(matches("(?i:[ßa]+)", "Assẞ"), Words{"Assẞ"});
  EXPECT_EQ(matches("(?i:[^ß])", "ßẞss"), (Words{"s", "s"}));
  EXPECT_EQ(matches("ss|(?-i:ss)", "ß"), Words{});
}

TEST(Regex, FoldsSeveralCharactersWithinOneText) {
  for (const char* whole : {"(?i)s(?:s)", "(?i:(?:s)s)", "(?i:s\\x{73})", "(?i:s{1}s)", "(?i:y?(?:[x]?s)s)"})
    EXPECT_EQ(matches(whole, "ß"), Words{"ß"}) << whole;
  for (const char* parts : {"(?i:s(s))", "(?i:s(?i:s))", "(?i:s(?:)s)", "(?i:s+s?)x?", "(?i:s{2})",
                            "(?i:s[s])", "(?i:s(?>s))", "(?i:(?:[x]?s)s)"})
    EXPECT_EQ(matches(parts, "ß"), Words{}) << parts;
}

TEST(Regex, FoldsCaseOfAClassAsAWhole) {
  EXPECT_EQ(matches("(?i:[ſ])", "sK\u212A"), Words{"s"});
  EXPECT_EQ(matches("(?i:[[^a]])", "aA"), (Words{"a", "A"}));  // for A is not a
  EXPECT_EQ(matches("(?i:[^\\p{Lu}])", "aA1"), Words{"1"});
  EXPECT_EQ(matches("(?i:\\p{Lu})", "aA"), Words{"A"});  // outside of brackets there is no case
  EXPECT_EQ(matches("(?i:Ꮳ)", "ꮳ"), Words{"ꮳ"});
}

TEST(Regex, TakesAlternativesWithAnOptionInTheMiddle) {
  EXPECT_EQ(matches("a(?i)b|c", "C aC aB"), (Words{"aC", "aB"}));
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

TEST(Regex, RefusesAnExpressionThatIsTooDeepOrTooLong) {
  const auto times = [](size_t count, const std::string& text) {
    std::string made;
    for (size_t i = 0; i < count; ++i) made += text;
    return made;
  };
  const auto refused = [](const std::string& expression, const char* why) {
    EXPECT_ERROR(compile_regex(expression, "tokenizer.json"), WEFT_DATA_LOSS, "tokenizer.json: ", why)
        << expression.substr(0, 20);
  };
  refused("a" + times(3000, "{1,2}"), "of repetitions, more than 8 deep");
  refused("a" + times(3000, "++"), "of repetitions, more than 8 deep");
  refused(times(3000, "(") + "a" + times(3000, ")"), "in groups, more than 50 deep");
  refused(times(3000, "[") + "a" + times(3000, "]"), "in classes, more than 50 deep");
  refused("a" + times(100'000, "{1,2}"), "500001 bytes, at most 16384");
  refused(times(13, "(?:") + "ab" + times(13, "){1000}"), "longer than 8192 steps");
  // Nothing is nothing, however often it is repeated, and cases are the same in a class of a class.
  EXPECT_EQ(matches("a(){1000}" + times(5, "{1000}") + "b", "ab"), Words{"ab"});
  EXPECT_EQ(matches("(?i)" + times(50, "[") + "a" + times(50, "]") + "+", "xaAb"), Words{"aA"});
}

TEST(Regex, RefusesATextThatTakesTooLong) {
  const auto refused = [](const std::string& expression, const std::string& text, const char* why) {
    EXPECT_ERROR(matches(expression, text), WEFT_RESOURCE_EXHAUSTED, "regular expression", expression, why);
  };
  refused("(a*)*b", std::string(1000, 'a'), "steps");
  refused("(?:a+)+b", std::string(1000, 'a'), "steps");
  refused("(?:a*?)*?b", std::string(1000, 'a'), "steps");
  refused("a*a*a*a*a*b", std::string(1000, 'a'), "steps");
  refused("(?=(a*)*b)a", std::string(1000, 'a'), "steps");
  refused("(?:a|b|c|aa|aaa|[ab]|[ac])*d", std::string(500'000, 'a'), "choices");
  refused("(a*)*\\1b", std::string(100, 'a'), "steps");
  refused("(a+)+\\1c", std::string(40, 'a'), "steps");
  EXPECT_EQ(matches("(?:a+)+b", std::string(100, 'a')), Words{});
  EXPECT_EQ(matches("(?:a|a|aa)*c", std::string(200, 'a')), Words{});
  EXPECT_EQ(matches("(?:\\p{L}\\p{M}*)+", std::string(1'000'000, 'a')).size(), 1u);
  EXPECT_EQ(matches(kByteLevelWords, std::string(1'000'000, ' ') + "x").size(), 2u);
}

}  // namespace

}  // namespace weft::tokenizer
