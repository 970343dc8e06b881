#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/text.hpp"
#include "host/launch/process.hpp"

namespace weft::launch {
namespace {

using testing::HasSubstr;

TEST(OpenMpi, IsUnderstood) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun here";
  const Output output =
      Process({"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", RANK_PROGRAM, "rank", "facts"})
          .finish();
  ASSERT_EQ(output.exit_code, 0) << output.error;
  for (const char* rank :
       {"rank 0 of 2 local 0 of 2 at 127.0.0.1:", "rank 1 of 2 local 1 of 2 at 127.0.0.1:"}) {
    EXPECT_THAT(output.out, HasSubstr(rank));
  }
  std::vector<std::string> ports;
  for (const std::string& line : split(output.out, '\n')) {
    EXPECT_THAT(line, HasSubstr("by openmpi; report false listen false"));
    const size_t begin = line.find("127.0.0.1:");
    ports.push_back(line.substr(begin, line.find(' ', begin) - begin));
  }
  ASSERT_EQ(ports.size(), 2U);
  EXPECT_EQ(ports[0], ports[1]);
}

}  // namespace
}  // namespace weft::launch
