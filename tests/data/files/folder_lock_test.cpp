// Who may save to a place.
#include "files/folder_lock.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "files/folder.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting_process.hpp"

namespace weft::checkpoint {
namespace {

namespace fs = std::filesystem;

// A file system without locks.
int no_flock(int /*descriptor*/, int /*operation*/) {
  errno = ENOLCK;
  return -1;
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class FolderLocks : public testing::Test {
 protected:
  // A process that takes the lock of `place` and keeps it until it is killed.
  pid_t start_holder(const std::string& place, FileLock::Flock flock = ::flock) const {
    return test::start_waiting([&] { new FolderLock(place, flock); });
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
  for (FileLock::Flock flock : {static_cast<FileLock::Flock>(&::flock), &no_flock}) {
    const pid_t holder = start_holder(place_, flock);
    EXPECT_ERROR(FolderLock(place_, flock), WEFT_UNAVAILABLE, place_, "another job", file_,
                 "process " + std::to_string(holder) + " on host " + host() + ", since 20");
    EXPECT_TRUE(fs::exists(file_));
    test::end_waiting(holder);
    EXPECT_TRUE(fs::exists(file_));
    { const FolderLock lock(place_, flock); }  // taken over
    EXPECT_FALSE(fs::exists(file_));
  }
}

// A save replaces a folder with all that is in it.
TEST_F(FolderLocks, ExcludePlacesInsideAndFoldersOutside) {
  for (FileLock::Flock flock : {static_cast<FileLock::Flock>(&::flock), &no_flock}) {
    const std::string inner = place_ + "/a/b";
    pid_t holder = start_holder(place_, flock);
    EXPECT_ERROR(FolderLock(inner, flock), WEFT_UNAVAILABLE, inner + " is in " + place_, file_,
                 "process " + std::to_string(holder));
    EXPECT_FALSE(fs::exists(place_));
    test::end_waiting(holder);
    holder = start_holder(inner, flock);
    EXPECT_ERROR(FolderLock(place_, flock), WEFT_UNAVAILABLE, place_ + " contains " + inner,
                 place_ + "/a/.b.saving.lock", "process " + std::to_string(holder));
    if (flock != &no_flock) {  // which a save does not know
      EXPECT_ERROR(StagedFolder::reserve(place_), WEFT_UNAVAILABLE, inner);
      fs::create_directory_symlink(folder_.path(), folder_.path() + "/link");
      EXPECT_ERROR(StagedFolder::reserve(folder_.path() + "/link/out"), WEFT_UNAVAILABLE, inner);
    }
    { const FolderLock beside(place_ + "/a/c", flock); }
    { const FolderLock beside(place_ + "/abc", flock); }
    test::end_waiting(holder);
    const FolderLock lock(place_, flock);
    const FolderLock inside(place_ + "/step-3", flock);  // of the same process
    fs::remove_all(place_);
  }
}

TEST_F(FolderLocks, WriteNothingOutside) {
  const FolderLock lock(place_ + "/a/b");
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(fs::canonical(folder_.path())))
    found.push_back(entry.path());
  EXPECT_THAT(found, testing::UnorderedElementsAre(place_, place_ + "/a", place_ + "/a/.b.saving.lock"));
}

TEST_F(FolderLocks, AreNeverHeldBothInsideAndOutside) {
  const std::string places[] = {place_, place_ + "/inner"};
  for (int round = 0; round < 5; ++round) {
    int begin[2], won[2], end[2];
    for (int* ends : {begin, won, end}) ASSERT_EQ(pipe(ends), 0);
    std::vector<pid_t> processes;
    for (const std::string& place : places) {
      processes.push_back(fork());
      if (processes.back() != 0) continue;
      char byte = 0;
      ::close(begin[1]);
      ::close(end[1]);
      [[maybe_unused]] auto done = read(begin[0], &byte, 1);  // until all begin
      try {
        const FolderLock lock(place);
        done = write(won[1], "w", 1);
        done = read(end[0], &byte, 1);
      } catch (const Error&) {
        done = write(won[1], "l", 1);
      }
      _exit(0);
    }
    ::close(begin[1]);
    std::string all(2, ' ');
    ASSERT_EQ(read(won[0], &all[0], 1), 1);
    ASSERT_EQ(read(won[0], &all[1], 1), 1);
    EXPECT_NE(all, "ww");
    ::close(end[1]);
    for (const pid_t process : processes) waitpid(process, nullptr, 0);
    for (const int descriptor : {begin[0], won[0], won[1], end[0]}) ::close(descriptor);
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

TEST_F(FolderLocks, AreKeptForAnotherHostWhereTheKernelHasNone) {
  folder_.file(".out.saving.lock", R"({"host": "elsewhere", "process": 1, "start": "1", "since": "then"})");
  EXPECT_ERROR(FolderLock(place_, no_flock), WEFT_UNAVAILABLE, "process 1", "host elsewhere");
  folder_.file(".out.saving.lock", "");
  EXPECT_ERROR(FolderLock(place_, no_flock), WEFT_UNAVAILABLE, file_, "another process");
  // The kernel knows that nobody has these.
  const FolderLock lock(place_);
}

TEST_F(FolderLocks, AreTakenOverIfAnotherProcessHasTheNumberNow) {
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

TEST_F(FolderLocks, RefuseALinkInPlaceOfTheirFile) {
  const std::string precious = folder_.file("precious", "text");
  for (const std::string& target : {precious, std::string("/nowhere/at/all")}) {
    fs::create_symlink(target, file_);
    EXPECT_ERROR(FolderLock{place_}, WEFT_UNAVAILABLE, "save to " + place_, file_, "a link");
    fs::remove(file_);
  }
  EXPECT_EQ(read_bytes(precious), "text");
}

// What is in the folder is another's, so a save works whatever it is.
TEST_F(FolderLocks, IgnoreWhatIsNoLockInsideThePlace) {
  const std::string precious = folder_.file("precious", "text");
  fs::create_directories(place_ + "/.b.saving.lock");
  fs::create_symlink(precious, place_ + "/.a.saving.lock");
  ASSERT_EQ(mkfifo((place_ + "/.c.saving.lock").c_str(), 0600), 0);
  fs::create_symlink(folder_.path(), place_ + "/.d.saving-0badf00d.old");
  fs::create_symlink(precious, place_ + "/note.txt");
  StagedFolder staged(place_, [](const fs::path&) { return true; });
  write_file(staged.path() / "note.txt", "another");
  staged.publish();
  EXPECT_EQ(read_bytes(precious), "text");
  EXPECT_EQ(read_bytes(place_ + "/note.txt"), "another");
  EXPECT_FALSE(fs::exists(fs::symlink_status(place_ + "/d")));
  EXPECT_TRUE(fs::is_symlink(place_ + "/.a.saving.lock"));
}

TEST_F(FolderLocks, AFileIsNotWrittenInPlaceOfAFolderThatHoldsSomething) {
  fs::create_directories(place_ + "/config.json");
  std::ofstream(place_ + "/config.json/precious") << "text";
  EXPECT_ERROR(write_file(place_ + "/config.json", "{}"), WEFT_UNAVAILABLE, "config.json");
  EXPECT_EQ(read_bytes(place_ + "/config.json/precious"), "text");
}

TEST_F(FolderLocks, RefuseALinkToNothingAsAPlace) {
  fs::create_symlink("/nowhere/at/all", place_);
  EXPECT_ERROR(StagedFolder::reserve(place_), WEFT_NOT_FOUND, place_, "link to /nowhere/at/all");
  fs::remove(place_);
  fs::create_symlink(place_, place_);
  EXPECT_ERROR(StagedFolder::reserve(place_), WEFT_INVALID_ARGUMENT, "save to " + place_);
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
  EXPECT_ERROR(FolderLock("/proc/self/out"), WEFT_UNAVAILABLE, "save to /proc/self/out", "No such file");
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
