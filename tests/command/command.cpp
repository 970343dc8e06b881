#include "command/command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft::test {

namespace {

const launch::ProcessOptions kOneThread = {.environment =
                                               {
                                                   {"OMP_NUM_THREADS", "1"},
#ifdef WEFT_TEST_PLUGIN_FOLDER
                                                   {"WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGIN_FOLDER},
#endif
                                               },
                                           .input = "",
                                           .error_fd = -1};

// Returns Weft's own message, without the log before it.
std::string message_of(const std::string& error) {
  const size_t begin = error.find("weft: ");
  return begin == std::string::npos ? "" : error.substr(begin);
}

}  // namespace

Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::string weft_program() {
  const char* const moved = std::getenv("WEFT_TEST_PROGRAM");
  return moved != nullptr ? moved : WEFT_PROGRAM;
}

launch::Process start_weft(const Words& words) {
  return launch::Process(Words{weft_program()} + words, kOneThread);
}

Output weft_command(const Words& words) {
  return start_weft(words).finish();
}

Output weft_command_with(const std::string& variable, const Words& words) {
  return launch::Process(Words{"env", variable, weft_program()} + words, kOneThread).finish();
}

Output expect_success(const Words& words) {
  Output output = weft_command(words);
  EXPECT_EQ(output.exit_code, 0) << testing::PrintToString(words) << "\n" << output.error;
  EXPECT_EQ(output.error.find("reported: "), std::string::npos)  // by the simulated device
      << testing::PrintToString(words) << "\n"
      << output.error;
  return output;
}

testing::AssertionResult refuses(const Words& words, int exit_code, const std::vector<std::string>& pieces) {
  constexpr std::chrono::seconds kFast{60};  // ranks wait for each other for 1800 s
  const auto start = std::chrono::steady_clock::now();
  const Output output = weft_command(words);
  const std::string message = message_of(output.error),
                    shown = testing::PrintToString(words) + "\n" + output.error;
  if (output.exit_code != exit_code)
    return testing::AssertionFailure()
           << "exit code " << output.exit_code << ", expected " << exit_code << ": " << shown;
  if (std::chrono::steady_clock::now() - start > kFast)
    return testing::AssertionFailure() << "it took long: " << shown;
  for (const std::string& piece : pieces)
    if (message.find(piece) == std::string::npos)
      return testing::AssertionFailure() << "\"" << piece << "\" is missing: " << shown;
  return testing::AssertionSuccess();
}

StepPipe::StepPipe(const TemporaryFolder& folder) : path_(folder.path() + "/steps") {
  if (mkfifo(path_.c_str(), 0600) != 0) throw std::runtime_error("cannot make " + path_);
  end_ = open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);  // also a writer: it never sees the end
}

StepPipe::~StepPipe() {
  close(end_);
}

bool StepPipe::fill(int timeout_ms) {
  pollfd event = {end_, POLLIN, 0};
  char buffer[4096];
  if (poll(&event, 1, timeout_ms) != 1) return false;
  const ssize_t count = read(end_, buffer, sizeof(buffer));
  if (count > 0) text_.append(buffer, static_cast<size_t>(count));
  return count > 0;
}

std::optional<nlohmann::json> StepPipe::next() {
  while (text_.find('\n') == std::string::npos)
    if (!fill(30'000)) return std::nullopt;
  const size_t end = text_.find('\n');
  const nlohmann::json line = nlohmann::json::parse(text_.substr(0, end));
  text_.erase(0, end + 1);
  return line;
}

std::vector<nlohmann::json> StepPipe::rest() {
  while (fill(0)) {
  }
  std::vector<nlohmann::json> lines;
  while (text_.find('\n') != std::string::npos) lines.push_back(*next());
  return lines;
}

std::vector<nlohmann::json> read_metrics(const std::string& path) {
  std::istringstream text(read_bytes(path));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<pid_t> children_with(pid_t parent, const std::string& variable) {
  const std::string process = std::to_string(parent);
  std::ifstream children("/proc/" + process + "/task/" + process + "/children");
  std::vector<pid_t> found;
  for (pid_t child = 0; children >> child;) {
    const std::string environment = '\0' + read_bytes("/proc/" + std::to_string(child) + "/environ");
    if (environment.find('\0' + variable + '\0') != std::string::npos) found.push_back(child);
  }
  return found;
}

void CommandTest::copy_trained_model() const {
  static const TemporaryFolder trained;
  static const Output output =
      expect_success(train({"--strategy", "none", "--steps", std::to_string(kTrainedSteps), "--lr",
                            std::to_string(kTrainedRate), "--output", trained.path() + "/out"}));
  ASSERT_EQ(output.exit_code, 0);
  std::filesystem::copy(trained.path() + "/out", in("out"), std::filesystem::copy_options::recursive);
}

Words CommandTest::train(const Words& more) const {
  return Words{"train", "--model", config_, "--data", data_} + more;
}

}  // namespace weft::test
