// Who may save to a place.
#include "checkpoint/folder_lock.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "checkpoint/folder.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::checkpoint {
namespace {

namespace fs = std::filesystem;

// A file system without locks.
int no_flock(int /*descriptor*/, int /*operation*/) {
  errno = ENOLCK;
  return -1;
}

class FolderLocks : public testing::Test {
 protected:
  // A process that takes the lock of `place` and keeps it until it is killed.
  pid_t start_holder(const std::string& place, FolderLock::Flock flock = ::flock) const {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t process = fork();
    if (process == 0) {
      const FolderLock lock(place, flock);
      [[maybe_unused]] const auto written = write(ends[1], "x", 1);
      for (;;) pause();
    }
    close(ends[1]);
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return process;
  }
  static void end(pid_t process) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
  std::string host() const {
    char name[256] = {};
    gethostname(name, sizeof(name) - 1);
    return name;
  }

  test::TemporaryFolder folder_;
  const std::string place_ = fs::canonical(folder_.path()).string() + "/out";
  const std::string file_ = fs::canonical(folder_.path()).string() + "/.out.saving.lock";
};

TEST_F(FolderLocks, ExcludeOtherProcessesUntilTheyEnd) {
  for (FolderLock::Flock flock : {static_cast<FolderLock::Flock>(&::flock), &no_flock}) {
    const pid_t holder = start_holder(place_, flock);
    EXPECT_ERROR(FolderLock(place_, flock), WEFT_UNAVAILABLE, place_, "is where another job saves",
                 "process " + std::to_string(holder) + " on host " + host() + ", since 20", file_);
    EXPECT_TRUE(fs::exists(file_));
    end(holder);
    EXPECT_TRUE(fs::exists(file_));
    { const FolderLock lock(place_, flock); }  // taken over
    EXPECT_FALSE(fs::exists(file_));
  }
}

TEST_F(FolderLocks, AreSharedInOneProcess) {
  FolderLock first(place_);
  const FolderLock second(place_);
  {
    const FolderLock::Save save = second.begin_save();
    EXPECT_ERROR(first.begin_save(), WEFT_FAILED_PRECONDITION, "saving to " + place_);
  }
  FolderLock::Save save = first.begin_save();
  first = FolderLock();
  EXPECT_TRUE(fs::exists(file_));
  FolderLock::Save moved = std::move(save);
  EXPECT_ERROR(second.begin_save(), WEFT_FAILED_PRECONDITION, "saving to " + place_);
  moved = FolderLock::Save();
  save = second.begin_save();
}

TEST_F(FolderLocks, StayWhileASaveGoesOn) {
  std::optional<FolderLock::Save> save;
  save = FolderLock(place_).begin_save();
  EXPECT_TRUE(fs::exists(file_));
  save.reset();
  EXPECT_FALSE(fs::exists(file_));
}

// Throws after the save has begun.
TEST_F(FolderLocks, AreFreeAgainAfterASaveThatFailed) {
  fs::create_directories(place_ + "/kept");
  const auto refuse = [](const fs::path&) -> bool { throw 7; };
  EXPECT_THROW(StagedFolder(place_, refuse), int);
  {
    StagedFolder staged(place_, [](const fs::path&) { return true; });
  }
  EXPECT_THROW(replace_file(place_, "a file instead of a folder"), Error);
  const FolderLock lock(place_);
  { const FolderLock::Save save = lock.begin_save(); }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name == "out" || name == ".out.saving.lock") << name;
  }
}

TEST_F(FolderLocks, OfAnotherHostAreKeptWhereThereAreNoLocks) {
  folder_.file(".out.saving.lock", R"({"host": "elsewhere", "process": 1, "start": "1", "since": "then"})");
  EXPECT_ERROR(FolderLock(place_, no_flock), WEFT_UNAVAILABLE, "process 1 on host elsewhere, since then");
  folder_.file(".out.saving.lock", "");
  EXPECT_ERROR(FolderLock(place_, no_flock), WEFT_UNAVAILABLE, "it holds " + file_);
  // The kernel knows that nobody has these.
  const FolderLock lock(place_);
}

TEST_F(FolderLocks, OfAProcessWhoseNumberIsAnothersNowAreTakenOver) {
  folder_.file(".out.saving.lock", R"({"host": ")" + host() + R"(", "process": )" + std::to_string(getpid()) +
                                       R"(, "start": "1", "since": "then"})");
  {
    const FolderLock lock(place_, no_flock);
    std::ifstream file(file_);
    const std::string holder(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(holder.find("then"), std::string::npos) << holder;
  }
  EXPECT_FALSE(fs::exists(file_));
}

TEST_F(FolderLocks, MakeTheFoldersAboveAndRemoveThemIfNothingIsSaved) {
  const std::string inner = place_ + "/a/b";
  { const FolderLock lock(inner + "/c"); }
  EXPECT_FALSE(fs::exists(place_));
  {
    const FolderLock lock(inner + "/c");
    fs::create_directory(inner + "/c");
  }
  EXPECT_TRUE(fs::exists(inner + "/c"));
  EXPECT_ERROR(FolderLock("/proc/self/out"), WEFT_UNAVAILABLE, "cannot save to /proc/self/out",
               "No such file or directory");
}

TEST(SavedPlace, IsInTheNamesOfWhatASaveLeaves) {
  EXPECT_EQ(saved_place(".step-3.saving-0badf00d"), "step-3");
  EXPECT_EQ(saved_place(".step-3.saving-0badf00d.old"), "step-3");
  EXPECT_EQ(saved_place(".step-3.saving.lock"), "step-3");
  for (const char* name : {"step-3", "step-3.saving-1", ".saving-1", ".saving.lock", ".gitignore", "."})
    EXPECT_EQ(saved_place(name), std::nullopt) << name;
}

}  // namespace
}  // namespace weft::checkpoint
