// Flags with numbers, of every verb: a value is one decimal number, or it is refused and named.
#include <gtest/gtest.h>

#include <regex>

#include "command/command.hpp"

namespace weft::test {
namespace {

constexpr int kUsage = 2;

class Numbers : public CommandTest {
 protected:
  // Expects that `flag` of each verb refuses each text.
  static void expect_refused(const std::vector<Words>& commands, const std::string& flag,
                             const std::vector<std::string>& texts, const std::string& allowed) {
    for (const Words& command : commands)
      for (const std::string& text : texts)
        EXPECT_TRUE(
            refuses(command + Words{flag, text}, kUsage,
                    {"weft: " + command.front() + ": ", flag + " is \"" + text + "\", must be " + allowed}));
  }
};

// Returns the flags whose type is `type` in `weft VERB --help`.
std::vector<std::string> flags_of(const std::string& verb, const std::string& type) {
  const std::string help = expect_success({verb, verb == "run" ? "--help" : "--help-all"}).out;
  const std::regex flag("(--[a-z-]+) " + type + "[ \n]");
  std::vector<std::string> flags;
  for (std::sregex_iterator at(help.begin(), help.end(), flag), end; at != end; ++at)
    flags.push_back((*at)[1]);
  return flags;
}

TEST_F(Numbers, EveryIntegerTakesTheWholeText) {
  size_t num_flags = 0;
  for (const char* verb : {"train", "evaluate", "predict", "forward", "generate", "plan", "convert", "run"})
    for (const std::string& flag : flags_of(verb, "INT")) {
      ++num_flags;
      expect_refused({{verb}}, flag, {"", "99999999999999999999"}, "a whole number from ");
    }
  EXPECT_GE(num_flags, 29u);
  expect_refused({{"train"}}, "--seed",
                 {"three", "1.5", "1e3", "0x10", "1 2", " 1", "1 ", "-", "1,2", "-99999999999999999999"},
                 "a whole number from -9223372036854775808 to 9223372036854775807");
}

TEST_F(Numbers, NoFlagIsTheValueOfAnother) {
  for (const char* verb : {"train", "evaluate", "predict", "forward", "generate", "plan", "convert", "run"})
    for (const char* type : {"INT", "FLOAT", "TEXT", "INT,...", "FLOAT,..."})
      for (const std::string& flag : flags_of(verb, type))
        EXPECT_TRUE(refuses({verb, flag, "--help"}, kUsage, {flag + " needs a value, but --help follows"}));
}

TEST_F(Numbers, LeadingZerosAreDecimal) {
  EXPECT_TRUE(
      refuses(train({"--steps", "1", "--strategy", "none", "--accumulate", "010"}), 1, {"--accumulate 10"}));
}

TEST_F(Numbers, RanksAndPortsHaveARange) {
  expect_refused({{"train"}, {"run"}}, "--nproc-per-node", {"0", "-1", "4097"},
                 "a whole number from 1 to 4096");
  expect_refused({{"run"}}, "--master-port", {"0", "65536"}, "a whole number from 1 to 65535");
}

TEST_F(Numbers, EveryRealIsFinite) {
  size_t num_flags = 0;
  for (const char* verb : {"train", "evaluate", "predict", "forward", "generate", "run"})
    for (const std::string& flag : flags_of(verb, "FLOAT")) {
      ++num_flags;
      expect_refused({{verb}}, flag, {"", "nan", "inf", "1,5"}, "a finite number, such as 0.5 or 1e-3");
    }
  EXPECT_GE(num_flags, 14u);
  expect_refused({{"train"}}, "--lr", {"fast", "-inf", "0x10", "1.5s", " 1"}, "a finite number");
  expect_refused({{"train"}}, "--lr", {"1e999", "-1e999", "1e-999"}, "within the range of a double");
}

TEST_F(Numbers, NoElementOfAListIsLeftOut) {
  expect_refused({{"generate"}}, "--prompt-ids", {""}, "a whole number");
  expect_refused({{"train"}}, "--betas", {""}, "a finite number");
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"1,,3", "2", ""}, {",2", "1", ""}, {"1,", "2", ""}, {"1,2,x", "3", "x"}, {"1, 2", "2", " 2"}};
  for (const auto& [list, position, element] : cases) {
    const std::string of = "element " + position + " of ",
                      is = " " + list + " is \"" + element + "\", must be a ";
    EXPECT_TRUE(
        refuses({"generate", "--prompt-ids", list}, kUsage, {of + "--prompt-ids" + is + "whole number"}));
    EXPECT_TRUE(refuses({"train", "--betas", list}, kUsage, {of + "--betas" + is + "finite number"}));
  }
}

}  // namespace
}  // namespace weft::test
