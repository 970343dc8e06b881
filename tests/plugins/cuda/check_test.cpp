// What `weft check` tells of a GPU.
#include <gmock/gmock.h>

#include "command/command.hpp"

namespace weft::test {
namespace {

using testing::HasSubstr;

TEST(Check, TellsOfTheGpu) {
  const nlohmann::json report = nlohmann::json::parse(expect_success({"check", "--json"}).out);
  EXPECT_EQ(report.at("cuda"), "usable with --device cuda");
  EXPECT_THAT(report.at("cuda_driver"), HasSubstr("CUDA "));
  EXPECT_THAT(report.at("gpu_0"), HasSubstr("GiB"));
}

}  // namespace
}  // namespace weft::test
