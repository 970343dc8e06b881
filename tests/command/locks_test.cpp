// What jobs of `weft train` lock: places of saves, and the token ids of text.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Locks : public CommandTest {
 protected:
  Words train_absent(const Words& more) const {
    return Words{"train", "--model", in("absent.json"), "--data", data_} + more;
  }
};

// The model is absent: a job that may not save does not open it.
TEST_F(Locks, ExcludeOtherSavesInsideAndAroundTheFolderOfAJob) {
  StepPipe steps(folder_);
  launch::Process job = start_weft(train({"--strategy", "none", "--steps", "1000000", "--metrics",
                                          steps.path(), "--output", in("runs/two"), "--save-every", "1000"}));
  ASSERT_TRUE(steps.next());
  job.signal(SIGSTOP);
  const std::string holder = "process " + std::to_string(job.id()) + " on host";
  EXPECT_TRUE(refuses(train_absent({"--output", in("runs")}), 1,
                      {in("runs") + " contains " + in("runs/two"), "another job", holder}));
  EXPECT_TRUE(refuses(train_absent({"--output", in("runs/two/step-7")}), 1,
                      {in("runs/two/step-7") + " is in " + in("runs/two"), "another job", holder}));
  expect_success(train({"--strategy", "none", "--steps", "1", "--output", in("runs/three")}));
  job.signal(SIGTERM);
  job.signal(SIGCONT);
  EXPECT_THAT(job.finish().error, HasSubstr("saved " + in("runs/two")));
  expect_success(train({"--strategy", "none", "--steps", "1", "--output", in("runs")}));
  EXPECT_TRUE(fs::exists(in("runs/three/config.json")));
}

TEST_F(Locks, AreNotWaitedForWithoutProgressOnTokenIds) {
  fs::create_directory(in("texts"));
  folder_.file("texts/a.txt", sample_text(400));
  const Words words = {"train", "--model",      config_, "--data",    in("texts"), "--strategy",
                       "none",  "--steps",      "1",     "--packing", "documents", "--sequence-length",
                       "8",     "--batch-size", "1",     "--timeout", "2"};
  expect_success(words);
  std::string ids;
  for (const auto& entry : fs::directory_iterator(in("texts/.weft_cache")))
    if (entry.path().extension() == ".ids") ids = entry.path();
  fs::remove(ids);
  const int lock = ::open((ids + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  EXPECT_TRUE(refuses(words, 1,
                      {"waited 2 s", "token ids", ids + ".lock",
                       "process " + std::to_string(::getpid()) + " on host", "--timeout"}));
  ::close(lock);
  expect_success(words);
}

TEST_F(Locks, AndSavesFollowNoLinkOfANameOfTheirOwn) {
  fs::create_directories(in("precious"));
  fs::create_directory(in("out"));
  fs::create_directory_symlink(in("precious"), in("out/step-1"));
  fs::create_symlink(in("precious/config.json"), in("out/config.json"));
  fs::create_symlink(in("precious/generation_config.json"), in("out/generation_config.json"));
  expect_success(train({"--strategy", "none", "--steps", "2", "--output", in("out"), "--save-every", "1"}));
  EXPECT_TRUE(fs::is_empty(in("precious")));
  EXPECT_TRUE(fs::exists(in("out/step-1/config.json")));
  EXPECT_FALSE(fs::is_symlink(in("out/step-1")));
  fs::create_symlink(in("precious/text"), in(".out.saving.lock"));
  EXPECT_TRUE(refuses(train_absent({"--output", in("out")}), 1, {in(".out.saving.lock"), "a link"}));
  fs::create_symlink(in("precious/nothing"), in("link"));
  EXPECT_TRUE(
      refuses(train_absent({"--output", in("link")}), 1, {"link to " + in("precious/nothing"), "not exist"}));
}

}  // namespace
}  // namespace weft::test
