#include "host/launch/slurm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft/error.hpp>

#include "base/text.hpp"

namespace weft::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal_of_hosts(const std::string& text) {
  try {
    expand_host_list("SLURM_NODELIST", text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(HostList, RefusesWhatIsMalformedAndNamesTheVariable) {
  for (const char* text : {"", ",", "n1,", "n[", "n]", "n[]", "n[1", "n[1-]", "n[-1]", "n[3-1]", "n[a-b]",
                           "n[1-2[3]]", "n[1-99999999999]"}) {
    EXPECT_THAT(refusal_of_hosts(text), HasSubstr("SLURM_NODELIST is \"")) << text;
    EXPECT_THAT(refusal_of_hosts(text), HasSubstr("n[01-03,7],m2")) << text;
  }
  EXPECT_THAT(refusal_of_hosts("n[1-9999999]"), HasSubstr("more than 65536 hosts"));
}

TEST(HostList, ExpandsRangesKeepingLeadingZeros) {
  EXPECT_THAT(expand_host_list("V", "n[01-03,7],m2"), ElementsAre("n01", "n02", "n03", "n7", "m2"));
  EXPECT_THAT(expand_host_list("V", "n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
  EXPECT_THAT(expand_host_list("V", "login"), ElementsAre("login"));
}

TEST(HostList, ExpandsBracketsInTheMiddleAndTwice) {
  EXPECT_THAT(expand_host_list("V", "r[1-2]n[01,03]-ib"),
              ElementsAre("r1n01-ib", "r1n03-ib", "r2n01-ib", "r2n03-ib"));
}

TEST(TaskCounts, RefuseWhatIsMalformed) {
  for (const char* text : {"", "x", "2(3)", "2(x", "2(x3", "(x3)", "2(x99999999)", "-1"}) {
    EXPECT_THROW(expand_task_counts("SLURM_TASKS_PER_NODE", text), Error) << text;
  }
}

TEST(TaskCounts, RepeatAsTheyAreTold) {
  EXPECT_THAT(expand_task_counts("V", "2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_task_counts("V", "4"), ElementsAre(4));
}

}  // namespace
}  // namespace weft::launch
