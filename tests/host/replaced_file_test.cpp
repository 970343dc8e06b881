#include "base/replaced_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.hpp"
#include "host/expect_error.hpp"
#include "host/temporary.hpp"
#include "support/file_size_limit.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

size_t count_entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

std::string content(const fs::path& path) {
  return read_file(path, 1 << 20);
}

TEST(ReplacedFile, SaysWhereNothingCanBeWritten) {
  const TemporaryFolder folder;
  EXPECT_ERROR(replace_file(folder.path() / "none/a", "text", "--picture a"), WEFT_UNAVAILABLE,
               "--picture a: ", "No such file");
  EXPECT_ERROR(replace_file(folder.path(), "text"), WEFT_UNAVAILABLE, folder.path().string(),
               "Is a directory");
  fs::create_symlink("b", folder.path() / "a");
  fs::create_symlink("a", folder.path() / "b");
  EXPECT_ERROR(replace_file(folder.path() / "a", "text"), WEFT_UNAVAILABLE, "Too many levels");
  EXPECT_EQ(count_entries(folder.path()), 2u);
}

TEST(ReplacedFile, LeavesWhatWasThereIfTheNewTextHasNoRoom) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("a", "before");
  {
    const test::FileSizeLimit limit(10);
    EXPECT_ERROR(replace_file(path, "more than ten bytes"), WEFT_RESOURCE_EXHAUSTED, path.string(),
                 "too large");
    replace_file(path, "ten bytes.");
  }
  EXPECT_EQ(content(path), "ten bytes.");
  EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(ReplacedFile, AppearsAtItsCommitAndGoesWithoutOne) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a";
  {
    ReplacedFile file(path);
    file.write("text");
    file.sync();
    EXPECT_FALSE(fs::exists(path));
    EXPECT_EQ(count_entries(folder.path()), 1u);
  }
  EXPECT_EQ(count_entries(folder.path()), 0u);
  ReplacedFile file(path);
  file.write("text");
  file.commit();
  EXPECT_EQ(content(path), "text");
  EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(ReplacedFile, FollowsLinksAlsoToNothing) {
  const TemporaryFolder folder;
  const fs::path target = folder.write("below/target", "before");
  fs::create_symlink("below/target", folder.path() / "first");
  fs::create_symlink(folder.path() / "first", folder.path() / "second");
  replace_file(folder.path() / "second", "after");
  EXPECT_EQ(content(target), "after");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "first"));
  fs::create_symlink("below/new", folder.path() / "third");
  replace_file(folder.path() / "third", "new");
  EXPECT_EQ(content(folder.path() / "below/new"), "new");
  EXPECT_EQ(count_entries(folder.path() / "below"), 2u);
}

TEST(ReplacedFile, KeepsThePermissions) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("a", "before");
  fs::permissions(path, fs::perms(0640));
  replace_file(path, "after");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));
}

TEST(ReplacedFile, WritesDirectlyWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  const fs::path link = folder.path() / "null", pipe = folder.path() / "pipe";
  fs::create_symlink("/dev/null", link);
  replace_file(link, "text");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_ERROR(replace_file("/dev/full", "text"), WEFT_RESOURCE_EXHAUSTED, "/dev/full", "No space left");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ReplacedFile::require_writable(pipe, "pipe");  // which does not open it
  replace_file(pipe, "text");
  char text[8] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 4);
  EXPECT_STREQ(text, "text");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(ReplacedFile, RemovesWhatKilledProcessesLeftAndNothingElse) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a";
  folder.write(".a.saving-00000001", "left");
  const fs::path living = folder.write(".a.saving-00000002", "under way"),
                 other = folder.write(".b.saving-1", "");
  fs::create_directory(folder.path() / ".a.saving-00000003");
  fs::create_symlink(other, folder.path() / ".a.saving-00000004");
  const int held = open(living.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  replace_file(path, "text");
  close(held);
  EXPECT_FALSE(fs::exists(folder.path() / ".a.saving-00000001"));
  EXPECT_EQ(content(living), "under way");
  EXPECT_TRUE(fs::exists(other));
  EXPECT_EQ(count_entries(folder.path()), 5u);
}

TEST(ReplacedFile, TriesAPlaceWithoutATrace) {
  const TemporaryFolder folder;
  EXPECT_ERROR(ReplacedFile::require_writable(folder.path(), "--metrics m"), WEFT_UNAVAILABLE, "--metrics m",
               "Is a directory");
  ReplacedFile::require_writable(folder.path() / "a", "--metrics a");
  EXPECT_EQ(count_entries(folder.path()), 0u);
  const fs::path path = folder.write("a", "before");
  ReplacedFile::require_writable(path, "--metrics a");
  EXPECT_EQ(content(path), "before");
}

}  // namespace
}  // namespace weft
