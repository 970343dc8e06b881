// Runs the `weft` command of the build tree as a child process.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/samples.hpp"
#include "host/launch/process.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

using Words = std::vector<std::string>;
using launch::Output;

// Returns the path of the command: that of the build tree, or WEFT_TEST_PROGRAM where the tree was moved.
std::string weft_program();
// Runs `weft WORDS` to its end, with one thread per rank, and with the plugins in WEFT_TEST_PLUGIN_FOLDER if
// the test defines that.
Output weft_command(const Words& words);
// Does the same with an environment variable, "NAME=VALUE".
Output weft_command_with(const std::string& variable, const Words& words);
// Does the same without one; fails the test if the exit code is not 0.
Output expect_success(const Words& words);
// A command that runs in the background.
launch::Process start_weft(const Words& words);

// Expects that the command fails quickly with this exit code and that its message (from `weft: VERB: ` on)
// contains every one of these texts.
testing::AssertionResult refuses(const Words& words, int exit_code, const std::vector<std::string>& pieces);

// A named pipe in place of a metrics file, so that the test sees each step when it happens.
class StepPipe {
 public:
  explicit StepPipe(const TemporaryFolder& folder);
  ~StepPipe();
  const std::string& path() const { return path_; }
  // Returns the next line, or nothing if none comes within 30 s.
  std::optional<nlohmann::json> next();
  // Returns what was written and not read yet.
  std::vector<nlohmann::json> rest();

 private:
  bool fill(int timeout_ms);
  std::string path_, text_;
  int end_ = -1;
};

std::vector<nlohmann::json> read_metrics(const std::string& path);
// Returns the children of a process that have this variable in their environment, for example RANK=1.
std::vector<pid_t> children_with(pid_t parent, const std::string& variable);

// A folder with config.json and data.txt for a tiny model.
class CommandTest : public testing::Test {
 protected:
  // Copies a model after kTrainedSteps steps at kTrainedRate to in("out"), with its training state. Trains it
  // once for all tests of the process.
  static constexpr int kTrainedSteps = 20;
  static constexpr double kTrainedRate = 0.01;
  void copy_trained_model() const;
  // Returns the command line of `weft train` on config_ and data_, with more flags.
  Words train(const Words& more = {}) const;
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  TemporaryFolder folder_;
  std::string config_ = folder_.file("config.json", config_json());
  std::string data_ = folder_.file("data.txt", sample_text(17 * 32 + 5));
};

Words operator+(Words first, const Words& second);

}  // namespace weft::test
