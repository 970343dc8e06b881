// --device cuda on a machine that cannot: each thing that may be missing is named, with what to do.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <regex>

#include "command/command.hpp"

namespace weft::test {
namespace {

using testing::HasSubstr;

#ifdef WEFT_HAS_CUDA
// Returns why the system cannot load a library, or nothing.
std::string why_not(const std::string& library) {
  void* const opened = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (opened == nullptr) return dlerror();
  dlclose(opened);
  return "";
}
#endif

class NoGpu : public CommandTest {
 protected:
  std::string refusal(const Words& more = {}) {
    const Output output = launch::Process(Words{"env"} + more + Words{weft_program()} +
                                          train({"--device", "cuda", "--steps", "1"}))
                              .finish();
    EXPECT_NE(output.exit_code, 0);
    EXPECT_THAT(output.error, HasSubstr("cuda"));
    return output.error;
  }
};

TEST_F(NoGpu, NamesTheLibraryOfWeftThatIsMissing) {
  const std::string text = refusal({"WEFT_PLUGIN_DISABLE=cuda"});
  EXPECT_THAT(text, HasSubstr("device cuda: "));
  EXPECT_THAT(text, HasSubstr("sdk/docs/devices.md"));
}

#ifdef WEFT_HAS_CUDA
TEST_F(NoGpu, NamesTheLibraryOfNvidiaOrTheDriverThatIsMissing) {
  const std::string lacking = why_not(WEFT_TORCH_LIBRARIES "/libtorch_cuda.so");
  if (!lacking.empty()) {
    std::smatch name;
    ASSERT_TRUE(std::regex_search(lacking, name, std::regex("lib[^: ]+\\.so[.0-9]*(?=: cannot open)")))
        << lacking;
    const std::string text = refusal();
    EXPECT_THAT(text, HasSubstr(name.str()));
    EXPECT_THAT(text, HasSubstr("packaging/bootstrap cuda"));
  } else if (!why_not("libcuda.so.1").empty()) {
    const std::string text = refusal();
    EXPECT_THAT(text, HasSubstr("no NVIDIA driver"));
    EXPECT_THAT(text, HasSubstr("the driver"));
  } else {
    GTEST_SKIP() << "this machine has a driver";
  }
}

TEST_F(NoGpu, LeavesTheCpuAlone) {
  expect_success(train({"--device", "cpu", "--steps", "1"}));
}
#else
TEST_F(NoGpu, NamesTheLibraryOfWeftThatWasNotBuilt) {
  EXPECT_THAT(refusal(), HasSubstr("device \"cuda\""));
}
#endif

TEST_F(NoGpu, IsToldByCheck) {
  const nlohmann::json report = nlohmann::json::parse(expect_success({"check", "--json"}).out);
  const std::string cuda = report.at("cuda");
  if (cuda.find("usable") != std::string::npos) GTEST_SKIP() << "this machine has a GPU: " << cuda;
  EXPECT_THAT(cuda, HasSubstr("--device cuda"));
#ifdef WEFT_HAS_CUDA
  if (why_not(WEFT_TORCH_LIBRARIES "/libtorch_cuda.so").empty()) {
    // The libraries that are loaded may be of another version than the headers of the build.
    EXPECT_THAT(report.at("nccl").get<std::string>(), testing::MatchesRegex("2[.][0-9]+[.][0-9]+"));
    EXPECT_THAT(report.at("cuda_runtime").get<std::string>(), testing::MatchesRegex("CUDA 13[.][0-9]+"));
    EXPECT_TRUE(report.contains("cuda_driver"));
  }
#endif
}

}  // namespace
}  // namespace weft::test
