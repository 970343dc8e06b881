// The `weft` command of the build tree as a child process.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launch/process.hpp"
#include "support/temporary_folder.hpp"
#include "train/samples.hpp"

namespace weft::test {

using Words = std::vector<std::string>;
using launch::Output;

// `weft WORDS`, from start to end, with one thread a rank.
Output weft_command(const Words& words);
// The same; a failure of the test if the exit code is not 0.
Output weft_succeeds(const Words& words);
// A command that is still running.
launch::Process start_weft(const Words& words);

// It fails with this exit code, quickly, and its message (from `weft: VERB: ` on) holds every piece.
testing::AssertionResult refuses(const Words& words, int exit_code, const std::vector<std::string>& pieces);

// A named pipe in the place of a metrics file: the test sees each step as it happens.
class StepPipe {
 public:
  explicit StepPipe(const TemporaryFolder& folder);
  ~StepPipe();
  const std::string& path() const { return path_; }
  // The next line; nothing if none comes in 30 s.
  std::optional<nlohmann::json> next();
  // What has been written so far and was not read.
  std::vector<nlohmann::json> rest();

 private:
  bool fill(int timeout_ms);
  std::string path_, text_;
  int end_ = -1;
};

std::vector<nlohmann::json> read_metrics(const std::string& path);
// The children of a process that have this variable in their environment, RANK=1 for example.
std::vector<pid_t> children_with(pid_t parent, const std::string& variable);

// A folder with config.json and data.txt of a tiny model.
class CommandTest : public testing::Test {
 protected:
  // The model after kTrainedSteps steps at kTrainedRate in in("out"), with its training state. It is trained
  // once for all tests of the process.
  static constexpr int kTrainedSteps = 20;
  static constexpr double kTrainedRate = 0.01;
  void copy_trained_model() const;
  // weft train on it, with more flags.
  Words train(const Words& more = {}) const;
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  TemporaryFolder folder_;
  std::string config_ = folder_.file("config.json", config_json());
  std::string data_ = folder_.file("data.txt", sample_text(17 * 32 + 5));
};

Words operator+(Words first, const Words& second);

}  // namespace weft::test
