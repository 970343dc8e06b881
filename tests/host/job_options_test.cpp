// The declaration of what a job can be told: sdk/options/job.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/job_options.hpp"
#include "host/expect_error.hpp"

namespace weft {
namespace {

TEST(JobOptions, HaveOneNameAndOneFlagForEachUser) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const JobOption& option : job_options())
    for (const std::string& user : option.users) {
      EXPECT_TRUE(seen.emplace(user, option.spec.name).second) << user << " has two " << option.spec.name;
      EXPECT_TRUE(seen.emplace(user, option.flag).second) << user << " has two " << option.flag;
      for (const std::string& synonym : option.synonyms)
        EXPECT_TRUE(seen.emplace(user, synonym).second) << user << " has two " << synonym;
    }
}

TEST(JobOptions, ExcludeOptionsOfAVerbThatHasThem) {
  for (const JobOption& option : job_options())
    for (const std::string& other : option.excludes)
      EXPECT_TRUE(
          std::any_of(option.users.begin(), option.users.end(),
                      [&](const std::string& user) { return find_job_option(user, other) != nullptr; }))
          << option.spec.name << " excludes " << other;
}

TEST(JobOptions, HaveASentenceThatStandsAlone) {
  for (const JobOption& option : job_options()) {
    EXPECT_GT(option.spec.doc.size(), 10u) << option.spec.name;
    EXPECT_TRUE(option.spec.doc.ends_with("...") || !option.spec.doc.ends_with('.')) << option.spec.name;
    for (const char* relative : {"Of the same", "As above", "The same"})
      EXPECT_FALSE(option.spec.doc.starts_with(relative)) << option.spec.doc;
  }
}

TEST(JobOptions, KnowTheKindsOfData) {
  const std::set<std::string> kinds = {"text",       "tokens",    "tensors", "images",
                                       "recordings", "questions", "labels",  "library"};
  for (const JobOption& option : job_options())
    for (const std::string& kind : option.data) EXPECT_TRUE(kinds.contains(kind)) << option.spec.name;
}

TEST(JobOptions, FitTheScreenInShortHelp) {
  for (const char* verb : {"train", "evaluate", "predict", "forward", "generate", "plan"}) {
    const std::vector<const JobOption*> options = job_options_of(verb);
    const auto common =
        std::count_if(options.begin(), options.end(), [](const JobOption* option) { return option->common; });
    EXPECT_LE(common, 20) << verb;
    EXPECT_GE(common, 4) << verb;
  }
}

TEST(JobOptions, AreCheckedByTheirDeclaration) {
  const auto check = [](const nlohmann::json& given) { check_settings("train", given, flag_name); };
  check({{"steps", 3}, {"output", "out"}, {"save_every", 1}});
  EXPECT_ERROR(check({{"steps", 0}}), WEFT_INVALID_ARGUMENT, "--steps is 0", "integer", "at least 1");
  EXPECT_ERROR(check({{"output", ""}}), WEFT_INVALID_ARGUMENT, "--output is empty");
  EXPECT_ERROR(check({{"save_every", 1}}), WEFT_INVALID_ARGUMENT, "--save-every needs --output");
  EXPECT_ERROR(check({{"steps", 1}, {"epochs", 1}}), WEFT_INVALID_ARGUMENT, "exclude each");
  EXPECT_ERROR(check({{"packing", "stream "}}), WEFT_INVALID_ARGUMENT, "--packing is \"stream \"");
}

}  // namespace
}  // namespace weft
