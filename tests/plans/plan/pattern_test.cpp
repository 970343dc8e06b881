#include "plan/pattern.hpp"

#include <gtest/gtest.h>

#include "operations/cut_rules.hpp"
#include "plan/description.hpp"
#include "weft/error.hpp"

namespace weft::plan {
namespace {

TEST(Pattern, RefusesWhatIsMalformed) {
  for (const char* text : {"", " ", "a,,b", "a,", ",a", "h..attn", ".h", "h.", "h.[12", "h.[]", "h.]",
                           "h.[[1]]", "h.[0-3]", "h.**", "h attn", "h/attn", "h.?", "h.\n", "h.[.]"}) {
    EXPECT_THROW(Pattern::parse(text), Error) << text;
  }
  EXPECT_THROW(Pattern::parse(std::string(5000, 'a')), Error);
}

TEST(Pattern, SaysWhatIsMalformed) {
  try {
    Pattern::parse("h.*.ln_[1-2]");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), WEFT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.what()).find("\"h.*.ln_[1-2]\" is malformed: `-` inside []"),
              std::string::npos)
        << error.what();
  }
}

TEST(Pattern, DoesNotMatchAcrossComponents) {
  EXPECT_FALSE(Pattern::parse("h.*").matches("h.0.attn"));
  EXPECT_FALSE(Pattern::parse("*").matches("h.0"));
  EXPECT_FALSE(Pattern::parse("h.*.c_attn").matches("h.0.attn.c_attn"));
  EXPECT_FALSE(Pattern::parse("h.*.attn").matches("h.0"));
  EXPECT_FALSE(Pattern::parse("wte").matches("wte2"));
  EXPECT_FALSE(Pattern::parse("wte").matches("transformer.wte"));
  EXPECT_FALSE(Pattern::parse("h.0").matches("h.10"));
}

TEST(Pattern, MatchesComponentsPartsAndClasses) {
  EXPECT_TRUE(Pattern::parse("h.*.attn.c_attn").matches("h.11.attn.c_attn"));
  EXPECT_TRUE(Pattern::parse("h.*.attn.c_*").matches("h.0.attn.c_proj"));
  EXPECT_TRUE(Pattern::parse("*.c_*tn").matches("attn.c_attn"));
  EXPECT_TRUE(Pattern::parse("*a*b*").matches("xxaxaxbxb"));
  EXPECT_FALSE(Pattern::parse("*a*b").matches("xxaxaxbxbx"));
  EXPECT_TRUE(Pattern::parse("h.*.ln_[12]").matches("h.3.ln_2"));
  EXPECT_FALSE(Pattern::parse("h.*.ln_[12]").matches("h.3.ln_3"));
  EXPECT_FALSE(Pattern::parse("h.*.ln_[12]").matches("h.3.ln_12"));
  EXPECT_TRUE(Pattern::parse("[ab][ab]*").matches("ba"));
  EXPECT_TRUE(Pattern::parse("*[2]").matches("1212"));
}

TEST(Pattern, HoldsSeveralBetweenCommas) {
  const Pattern pattern = Pattern::parse(" h.*.ln_[12] ,ln_f");
  EXPECT_EQ(pattern.text(), "h.*.ln_[12], ln_f");
  EXPECT_TRUE(pattern.matches("ln_f"));
  EXPECT_TRUE(pattern.matches("h.0.ln_1"));
  EXPECT_FALSE(pattern.matches("h.0.attn"));
}

TEST(Pattern, TakesNoLongerThanItsLengthsAllow) {
  std::string stars;
  for (int i = 0; i < 1000; ++i) stars += "*a";
  EXPECT_FALSE(Pattern::parse(stars + "b").matches(std::string(4000, 'a')));
}

TEST(Paths, AreOrderedAsPeopleCount) {
  EXPECT_TRUE(natural_less("h.2", "h.10"));
  EXPECT_FALSE(natural_less("h.10", "h.2"));
  EXPECT_TRUE(natural_less("h", "h.0"));
  EXPECT_TRUE(natural_less("h.0.attn", "h.0.attn.c_attn"));
  EXPECT_TRUE(natural_less("h.0", "h_0"));
  EXPECT_FALSE(natural_less("h.1", "h.1"));
}

TEST(Paths, AreCompressedByTheirNumbers) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(compress_paths({"h.0.ln_1", "h.0.ln_2", "h.1.ln_1", "h.1.ln_2", "ln_f"}),
            (Names{"h.{0..1}.ln_1", "h.{0..1}.ln_2", "ln_f"}));
  EXPECT_EQ(compress_paths({"h.0", "h.1", "h.2", "h.5"}), (Names{"h.{0..2,5}"}));
  EXPECT_EQ(compress_paths({"a.0.b.0", "a.0.b.1", "a.1.b.0", "a.1.b.1"}), (Names{"a.{0..1}.b.{0..1}"}));
  EXPECT_EQ(compress_paths({"a.0.b.0", "a.0.b.1", "a.1.b.0"}), (Names{"a.0.b.{0..1}", "a.1.b.0"}));
  EXPECT_EQ(compress_paths({"h.7"}), (Names{"h.7"}));
  EXPECT_EQ(compress_paths({}), Names{});
}

TEST(Paths, AreSuggestedByNearness) {
  const std::vector<std::string> names = {"wte", "h.{0..11}.attn.c_attn", "h.{0..11}.attn.c_proj"};
  EXPECT_EQ(nearest_names("h.*.attn.c_atn", names, 1).front(), "h.{0..11}.attn.c_attn");
  EXPECT_EQ(nearest_names("wet", names, 1).front(), "wte");
}

TEST(Sizes, AreTheNearestDivisors) {
  EXPECT_EQ(nearest_divisors(6, 4), "3 and 6");
  EXPECT_EQ(nearest_divisors(3, 2), "1 and 3");
  EXPECT_EQ(nearest_divisors(5, 8), "5");
  EXPECT_EQ(nearest_divisors(0, 2), "none");
  EXPECT_EQ(nearest_divisors(-3, 2), "none");
}

}  // namespace
}  // namespace weft::plan
