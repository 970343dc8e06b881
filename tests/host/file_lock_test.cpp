#include "base/file_lock.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "base/files.hpp"
#include "base/host_name.hpp"
#include "host/expect_error.hpp"
#include "host/temporary.hpp"
#include "support/waiting_process.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

class FileLocks : public ::testing::Test {
 protected:
  pid_t start_holder() const {
    return test::start_waiting([&] {
      auto* const lock = new FileLock(file_);
      if (!lock->try_lock()) _exit(1);
    });
  }
  static std::string holder_of(FileLock& lock) {
    EXPECT_FALSE(lock.try_lock());
    const std::optional<LockHolder> holder = lock.holder();
    return holder ? holder->text() : "nobody";
  }

  testing::TemporaryFolder folder_;
  const fs::path file_ = folder_.path() / "x.lock";
};

TEST_F(FileLocks, RefuseALinkAndLeaveItsTarget) {
  const fs::path precious = folder_.write("precious", "text");
  for (const fs::path& target : {precious, folder_.path() / "nothing"}) {
    fs::create_symlink(target, file_);
    FileLock lock(file_);
    EXPECT_ERROR((void)lock.try_lock(), WEFT_PERMISSION_DENIED, file_.string(), "a link");
    EXPECT_FALSE(FileLock::find_holder(file_));
    fs::remove(file_);
  }
  EXPECT_EQ(read_file(precious, 100), "text");
  EXPECT_FALSE(fs::exists(folder_.path() / "nothing"));
}

TEST_F(FileLocks, RefuseWhatIsNoRegularFile) {
  fs::create_directory(file_);
  EXPECT_ERROR((void)FileLock(file_).try_lock(), WEFT_PERMISSION_DENIED, file_.string());
  EXPECT_FALSE(FileLock::find_holder(file_));
  fs::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_ERROR((void)FileLock(file_).try_lock(), WEFT_PERMISSION_DENIED, file_.string(), "regular file");
  EXPECT_FALSE(FileLock::find_holder(file_));
}

TEST_F(FileLocks, NeitherWriteToNorRemoveAFileOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  folder_.write("x.lock", "theirs");
  ASSERT_EQ(chown(file_.c_str(), 60000, 60000), 0);
  {
    FileLock lock(file_), second(file_);
    EXPECT_TRUE(lock.try_lock());
    lock.touch();
    lock.leave("a text");
    EXPECT_EQ(read_file(file_, 100), "theirs");
    EXPECT_EQ(holder_of(second).find("process " + std::to_string(getpid())), 0u) << holder_of(second);
  }
  EXPECT_EQ(read_file(file_, 100), "theirs");
}

TEST_F(FileLocks, NeitherWriteToNorRemoveAFileWithASecondName) {
  const fs::path precious = folder_.write("precious", "text");
  fs::create_hard_link(precious, file_);
  {
    FileLock lock(file_);
    EXPECT_TRUE(lock.try_lock());
  }
  EXPECT_EQ(read_file(precious, 100), "text");
  EXPECT_TRUE(fs::exists(file_));
}

TEST_F(FileLocks, NameTheProcessThatHoldsThem) {
  const pid_t holder = start_holder();
  FileLock lock(file_);
  const std::string name = "process " + std::to_string(holder) + " on host " + host_name();
  EXPECT_EQ(holder_of(lock).find(name + ", since 20"), 0u) << holder_of(lock);
  EXPECT_EQ(FileLock::find_holder(file_), holder_of(lock));
  kill(holder, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(holder, &status, WUNTRACED), holder);
  EXPECT_NE(holder_of(lock).find("(SIGSTOP)"), std::string::npos) << holder_of(lock);
  test::end_waiting(holder);
  EXPECT_FALSE(FileLock::find_holder(file_));
  EXPECT_TRUE(lock.try_lock());
  // What the file says may be old.
  const pid_t silent = test::start_waiting([&] {
    folder_.write("y.lock", read_file(file_, 1000));
    const int file = open((folder_.path() / "y.lock").c_str(), O_RDWR);
    if (flock(file, LOCK_EX) != 0) _exit(1);
  });
  FileLock other(folder_.path() / "y.lock");
  EXPECT_EQ(holder_of(other), "process " + std::to_string(silent) + " on host " + host_name());
  test::end_waiting(silent);
}

TEST_F(FileLocks, ShowProgress) {
  FileLock lock(file_);
  ASSERT_TRUE(lock.try_lock());
  const timespec long_ago[] = {{1, 0}, {1, 0}};
  utimensat(AT_FDCWD, file_.c_str(), long_ago, 0);
  lock.touch();
  struct stat status = {};
  ASSERT_EQ(stat(file_.c_str(), &status), 0);
  EXPECT_NE(status.st_mtim.tv_sec, 1);
}

TEST_F(FileLocks, GiveTheTextThatIsLeftToThoseWhoWait) {
  for (const FileLock::AtEnd at_end : {FileLock::AtEnd::kRemove, FileLock::AtEnd::kKeep}) {
    std::optional<FileLock> lock(std::in_place, file_, at_end), waiting(std::in_place, file_, at_end);
    ASSERT_TRUE(lock->try_lock());
    EXPECT_FALSE(waiting->try_lock());
    lock->leave("a text");
    lock.reset();
    EXPECT_EQ(fs::exists(file_), at_end == FileLock::AtEnd::kKeep);
    EXPECT_TRUE(waiting->try_lock());
    EXPECT_EQ(waiting->left(), "a text");
    waiting->leave("another");
    waiting.reset();
    FileLock later(file_, at_end);
    EXPECT_TRUE(later.try_lock());
    EXPECT_EQ(later.left(), "") << "it has not waited";
  }
}

}  // namespace
}  // namespace weft
