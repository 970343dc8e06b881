// Properties of characters, normal forms and grapheme clusters.
#include "tokenizer/unicode.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tokenizer/graphemes.hpp"
#include "tokenizer/normal_forms.hpp"

namespace weft::tokenizer {
namespace {

TEST(Category, IsThatOfTheCharacterInEachPlane) {
  EXPECT_EQ(category(U'A'), Category::kLu);
  EXPECT_EQ(category(U'_'), Category::kPc);
  EXPECT_EQ(category(U'é'), Category::kLl);
  EXPECT_EQ(category(0x0301), Category::kMn);
  EXPECT_EQ(category(U'中'), Category::kLo);
  EXPECT_EQ(category(0x1F600), Category::kSo);
  EXPECT_EQ(category(0x1FFFF), Category::kCn);  // the last that is looked up, and the first that is searched
  EXPECT_EQ(category(0x20000), Category::kLo);
  EXPECT_EQ(category(0xE0001), Category::kCf);
  EXPECT_EQ(category(0x10FFFD), Category::kCo);
  EXPECT_EQ(category(0x10FFFF), Category::kCn);
}

TEST(Category, HasTheNamesOfPatterns) {
  EXPECT_EQ(categories_of("Lx"), 0u);
  EXPECT_EQ(categories_of(""), 0u);
  EXPECT_EQ(categories_of("L"), kLetters);
  EXPECT_EQ(categories_of("Uppercase_Letter"), category_bit(Category::kLu));
  EXPECT_EQ(categories_of("uppercase letter"), category_bit(Category::kLu));
  EXPECT_EQ(categories_of("Cn"), category_bit(Category::kCn));
}

TEST(Property, DiffersForWordsBetweenPatternsAndThePreTokenizer) {
  EXPECT_TRUE(is_word(U'²'));
  EXPECT_FALSE(is_word_or_joiner(U'²'));
  EXPECT_FALSE(is_word(0x200D));
  EXPECT_TRUE(is_word_or_joiner(0x200D));
  EXPECT_TRUE(is_word(U'ⓐ'));
  EXPECT_FALSE(is_word(U'-'));
}

TEST(Property, FollowsTheVersionOfUnicodeOfItsUser) {
  EXPECT_TRUE(is_nonspacing_mark(0x1734));  // Mc since 14.0
  EXPECT_FALSE(is_nonspacing_mark(0x8D4));  // since 9.0
  EXPECT_TRUE(is_mark(0x8D4));
  EXPECT_TRUE(is_punctuation(0x166D));   // a symbol since 12.0
  EXPECT_FALSE(is_punctuation(0x2E43));  // since 9.0
  EXPECT_TRUE(is_punctuation(U'$'));
  EXPECT_FALSE(is_punctuation(U'€'));
  EXPECT_TRUE(is_number(0x11DE0));  // since 17.0
}

TEST(LowerCase, IsThatOfEachCharacterAlone) {
  EXPECT_EQ(lower_case("ABC xyz ÀÉ ΟΔΟΣ"), "abc xyz àé οδοσ");
  EXPECT_EQ(lower_case("İ"), "i\u0307");
  EXPECT_EQ(lower_case("\U00010400"), "\U00010428");
  EXPECT_EQ(lower_case("ß中😀"), "ß中😀");
}

TEST(FoldCase, FindsTheSmallestOfAClass) {
  EXPECT_EQ(fold_case(U'k'), U'K');
  EXPECT_EQ(fold_case(0x212A), U'K');  // the sign of kelvin
  EXPECT_EQ(fold_case(U'é'), U'É');
  EXPECT_EQ(fold_case(U'ς'), U'Σ');
  EXPECT_EQ(fold_case(U'1'), U'1');
}

TEST(NormalForm, DecomposesAndComposes) {
  EXPECT_EQ(normalized("plain", NormalForm::kKD), "plain");
  EXPECT_EQ(normalized("é", NormalForm::kD), "e\u0301");
  EXPECT_EQ(normalized("e\u0301", NormalForm::kC), "é");
  EXPECT_EQ(normalized("ﬁ①", NormalForm::kC), "ﬁ①");
  EXPECT_EQ(normalized("ﬁ①", NormalForm::kKC), "fi1");
  EXPECT_EQ(normalized("\u212B", NormalForm::kC), "\u00C5");
  EXPECT_EQ(normalized("\u1E69", NormalForm::kD), "s\u0323\u0307");
}

TEST(NormalForm, OrdersMarksAndJoinsThoseThatNothingBlocks) {
  EXPECT_EQ(normalized("s\u0307\u0323", NormalForm::kD), "s\u0323\u0307");
  EXPECT_EQ(normalized("s\u0307\u0323", NormalForm::kC), "\u1E69");
  EXPECT_EQ(normalized("a\u0315\u0300", NormalForm::kC), "\u00E0\u0315");
  EXPECT_EQ(normalized("a\u0305\u0301", NormalForm::kC), "a\u0305\u0301");  // both above: blocked
  EXPECT_EQ(normalized("\u0958", NormalForm::kC), "\u0915\u093C");          // excluded from composition
}

TEST(NormalForm, ComputesSyllablesOfHangul) {
  EXPECT_EQ(normalized("한가", NormalForm::kD), "\u1112\u1161\u11AB\u1100\u1161");
  EXPECT_EQ(normalized("\u1112\u1161\u11AB\u1100\u1161", NormalForm::kC), "한가");
  EXPECT_EQ(normalized("각\u11A8", NormalForm::kC), "각\u11A8");
}

TEST(Graphemes, JoinWhatIsSeenAsOne) {
  const auto first = [](const std::string& text) { return text.substr(0, end_of_grapheme(text, 0)); };
  EXPECT_EQ(first("ab"), "a");
  EXPECT_EQ(first("e\u0301x"), "e\u0301");
  EXPECT_EQ(first("\r\nx"), "\r\n");
  EXPECT_EQ(first("\n\u0301"), "\n");
  EXPECT_EQ(first("\u1112\u1161\u11ABx"), "\u1112\u1161\u11AB");
  EXPECT_EQ(first("👩\u200D👧x"), "👩\u200D👧");
  EXPECT_EQ(first("a\u200D👧"), "a\u200D");
  EXPECT_EQ(first("🇩🇪🇫🇷"), "🇩🇪");
}

}  // namespace
}  // namespace weft::tokenizer
