// `weft plugins new`: what it writes, and what it refuses. packaging/test-templates builds and tests the
// folders.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "host/temporary.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kKinds = {"checkpoint_io", "data",   "hook",     "model",    "objective",
                                      "operation",     "policy", "strategy", "tokenizer"};

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class NewPlugin : public ::testing::Test {
 protected:
  // Returns the exit code, and writes what was printed to `output`.
  int run(const std::string& arguments) {
    const std::string command =
        "cd " + folder_.path().string() + " && " + WEFT_COMMAND + " plugins new " + arguments + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    output_.clear();
    for (size_t size; (size = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output_.append(buffer, size);
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
  void expect_refused(const std::string& arguments, const std::string& part) {
    EXPECT_EQ(run(arguments), 1) << output_;
    EXPECT_NE(output_.find(part), std::string::npos) << part << "\n" << output_;
    EXPECT_EQ(entries(), 0) << output_;
  }
  int entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  testing::TemporaryFolder folder_;
  std::string output_;
};

TEST_F(NewPlugin, RefusesUnknownKindsAndNamesThoseThatExist) {
  expect_refused("strategie mine", "did you mean \"strategy\"?");
  for (const std::string& kind : kKinds) EXPECT_NE(output_.find(kind), std::string::npos) << kind;
  expect_refused("device mine", "\"device\"");
  expect_refused("../templates mine", "../templates");
}

TEST_F(NewPlugin, RefusesNamesThatCannotBePartsOfCode) {
  for (const char* name : {"Mine", "1st", "my-sum", "a/b", "..", "_a", "'a b'", "''"})
    expect_refused(std::string("strategy ") + name, "must have 1 to 64");
  expect_refused("strategy " + std::string(65, 'a'), "must have 1 to 64");
}

TEST_F(NewPlugin, LeavesWhatIsThereAlone) {
  folder_.write("mine/notes.txt", "notes");
  EXPECT_EQ(run("strategy mine"), 1);
  EXPECT_NE(output_.find((folder_.path() / "mine").string()), std::string::npos) << output_;
  fs::create_symlink("nowhere", folder_.path() / "link");
  EXPECT_EQ(run("strategy mine link"), 1) << output_;
  folder_.write("file", "text");
  EXPECT_EQ(run("strategy mine file"), 1) << output_;
  EXPECT_EQ(entries(), 3);
  EXPECT_EQ(read(folder_.path() / "mine/notes.txt"), "notes");
}

TEST_F(NewPlugin, WritesIntoNewAndEmptyFolders) {
  fs::create_directory(folder_.path() / "empty");
  for (const char* folder : {"", "empty", "above/below/"}) {
    const fs::path path = folder_.path() / (*folder == '\0' ? "late_sum" : folder);
    EXPECT_EQ(run(std::string("strategy late_sum ") + folder), 0) << output_;
    EXPECT_TRUE(fs::exists(path / "late_sum.cpp"));
    EXPECT_NE(read(path / "late_sum.cpp").find("WEFT_STRATEGY(LateSum, \"late_sum\")"), std::string::npos);
  }
  EXPECT_EQ(entries(), 3);  // no folder with a temporary name is left
}

TEST_F(NewPlugin, EveryTemplateGetsTheNameEverywhere) {
  std::set<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(WEFT_TEMPLATES))
    found.insert(entry.path().filename());
  EXPECT_EQ(found, kKinds);
  for (const std::string& kind : kKinds) {
    ASSERT_EQ(run(kind + " north_star " + kind), 0) << output_;
    const fs::path folder = folder_.path() / kind;
    const auto manifest = nlohmann::json::parse(read(folder / "plugin.json.in"));
    EXPECT_EQ(manifest["id"], "north_star");
    EXPECT_NE(read(folder / "CMakeLists.txt").find("project(north_star "), std::string::npos);
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      EXPECT_EQ(entry.path().filename().string().find("template_name"), std::string::npos) << entry.path();
      if (!entry.is_regular_file()) continue;
      const std::string text = read(entry.path());
      EXPECT_EQ(text.find("template_name"), std::string::npos) << entry.path();
      EXPECT_EQ(text.find("TemplateName"), std::string::npos) << entry.path();
    }
  }
}

}  // namespace
}  // namespace weft
