// The checkpoint formats of samples/checkpoint_io_c and samples/checkpoint_io on a full disk and for a path
// that names a file. tests/contract runs their suite.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <filesystem>

#include "api/samples.hpp"
#include "files/format.hpp"
#include "support/expect_error.hpp"
#include "support/small_disk.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using checkpoint::Reader;
using checkpoint::Writer;

class CheckpointFormat : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1); }

  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  checkpoint::WriteOptions options() const {
    checkpoint::WriteOptions options;
    options.format = GetParam();
    return options;
  }
  TemporaryFolder folder_;
};

TEST_P(CheckpointFormat, RefusesTheNameOfAFileOfAnotherFormat) {
  EXPECT_ERROR(Writer(in("a.safetensors"), options(), {}), WEFT_INVALID_ARGUMENT, GetParam(), "folder");
}

TEST_P(CheckpointFormat, SaysThatTheDiskIsFull) {
  fs::create_directory(in("disk"));
  const auto passed = passes_on_small_disk(in("disk"), 64 << 10, [&] {
    const at::Tensor values = at::full({64, 3}, 1.F);
    fs::create_directory(in("disk/model"));
    Writer writer(in("disk/model"), options(), {{"values", at::kFloat, {64, 3}}});
    writer.write(0, Box::whole({64, 3}), values);
    writer.commit();
    EXPECT_ERROR(Writer(in("disk/model"), options(), {{"large", at::kFloat, {1 << 16}}}),
                 WEFT_RESOURCE_EXHAUSTED, "model");
    EXPECT_TRUE(at::equal(Reader(in("disk/model")).read(0), values));
  });
  if (!passed) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_TRUE(*passed);
}

INSTANTIATE_TEST_SUITE_P(, CheckpointFormat, testing::Values("raw_files", "packed"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft::test
