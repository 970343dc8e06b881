// Which token ids that a file keeps are read, and who waits for them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/file_lock.hpp"
#include "data/text_fixture.hpp"
#include "support/expect_error.hpp"

namespace weft::data {
namespace {

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Ids as another program may write them: all are the same one, and the checksum is right.
void forge(const fs::path& file) {
  std::string bytes = read_bytes(file);
  uint64_t ids = 0;
  std::memcpy(&ids, bytes.data() + 16, 8);
  for (uint64_t i = 0; i < ids; ++i) bytes.replace(64 + 2 * i, 2, std::string("!\0", 2));
  const auto add = [](uint64_t sum, std::string_view words) {
    for (size_t i = 0; i < words.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, words.data() + i, 8);
      sum = std::rotl((sum ^ word) * 0x9e3779b97f4a7c15u, 29);
    }
    return sum;
  };
  const uint64_t sum = add(add(0, std::string_view(bytes).substr(64)), std::string_view(bytes).substr(0, 48));
  std::memcpy(bytes.data() + 48, &sum, 8);
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST_F(Text, IsNotThatOfACacheWhichSomebodyElseMayHaveMade) {
  const std::string path = folder_.file("a.txt", "abcdef");
  const Ids right = joined({{kBegin}, encode_pairs("abcdef"), {kEnd}});
  EXPECT_EQ(all_ids(path), right);
  const fs::path file = cache_file();
  forge(file);
  EXPECT_EQ(all_ids(path), Ids(8, '!')) << "what is forged is read where it is believed";
  const auto expect_elsewhere = [&](const std::string& place, const std::string& reason) {
    std::string note;
    TextOptions options;
    options.note = [&](const std::string& line) { note += line; };
    open(path, 4, options);
    EXPECT_NE(note.find(elsewhere_ + "/weft/ids: " + place), std::string::npos) << note;
    EXPECT_NE(note.find(reason), std::string::npos) << note;
    EXPECT_EQ(all_ids(path), right);
    note.clear();
    open(path, 4, options);
    EXPECT_EQ(note, "") << "they are made once";
    fs::remove_all(elsewhere_);
  };
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  expect_elsewhere(file.string(), "by everybody");
  fs::permissions(file, fs::perms::others_write, fs::perm_options::remove);
  fs::rename(file, folder_.path() + "/ids");
  fs::create_symlink(folder_.path() + "/ids", file);
  expect_elsewhere(file.string(), "a link");
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  expect_elsewhere(file.string(), "regular file");
  fs::remove(file);
  fs::create_directory(file);
  expect_elsewhere(file.string(), "regular file");
  fs::remove(file);
  fs::remove(file.string() + ".lock");
  fs::create_symlink(folder_.path() + "/ids", file.string() + ".lock");
  const std::string before = read_bytes(folder_.path() + "/ids");
  expect_elsewhere(file.string() + ".lock", "a link");
  EXPECT_EQ(read_bytes(folder_.path() + "/ids"), before);
  fs::remove_all(file.parent_path());
  std::ofstream(file.parent_path()) << "a file";
  expect_elsewhere(file.parent_path().string(), "no folder");
  std::ofstream(elsewhere_) << "a file";
  EXPECT_ERROR(open(path), WEFT_PERMISSION_DENIED, file.parent_path().string(), "no folder",
               elsewhere_ + "/weft/ids cannot", "XDG_CACHE_HOME");
}

TEST_F(Text, IsThatOfACacheOfAGroupThatTheUserAndTheFolderHave) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  constexpr uid_t kOther = 60000;
  const std::string path = folder_.file("a.txt", "abcdef");
  all_ids(path);
  const fs::path file = cache_file(), cache = file.parent_path();
  forge(file);
  const auto is_believed = [&](uid_t user, gid_t group, uid_t folder_user, gid_t folder_group, mode_t mode) {
    EXPECT_EQ(chown(file.c_str(), user, group), 0);
    EXPECT_EQ(chown(cache.c_str(), folder_user, folder_group), 0);
    EXPECT_EQ(chmod(cache.c_str(), mode), 0);
    const bool is = all_ids(path) == Ids(8, '!');
    fs::remove_all(elsewhere_);
    return is;
  };
  const gid_t own = getegid();
  EXPECT_FALSE(is_believed(kOther, kOther, 0, own, 0755));
  EXPECT_FALSE(is_believed(kOther, own, 0, kOther, 0755));
  EXPECT_FALSE(is_believed(0, own, kOther, kOther, 0755));
  EXPECT_FALSE(is_believed(kOther, own, 0, own, 02777)) << "everybody's files there have the group";
  EXPECT_TRUE(is_believed(0, own, 0, own, 0777));
  EXPECT_TRUE(is_believed(kOther, own, 0, own, 02775));
  EXPECT_TRUE(is_believed(kOther, own, kOther, own, 02775));
}

TEST_F(Text, IsTokenizedAgainIfItChangedAtTheSameSizeAndTime) {
  const std::string path = folder_.file("a.txt", "abcdef");
  all_ids(path);
  const auto time = fs::last_write_time(path);
  folder_.file("a.txt", "abcdeg");
  fs::last_write_time(path, time);
  EXPECT_EQ(all_ids(path), joined({{kBegin}, encode_pairs("abcdeg"), {kEnd}}));
  // Another file in its place.
  folder_.file("b.txt", "abcdeh");
  fs::last_write_time(folder_.path() + "/b.txt", time);
  fs::rename(folder_.path() + "/b.txt", path);
  EXPECT_EQ(all_ids(path), joined({{kBegin}, encode_pairs("abcdeh"), {kEnd}}));
}

// A process that has the lock of the cache, as the file beside it says, and never makes it.
class IdleHolder {
 public:
  explicit IdleHolder(const std::string& file) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto* const lock = new FileLock(file);
      [[maybe_unused]] const auto written = ::write(ends[1], lock->try_lock() ? "x" : "-", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'x');
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~IdleHolder() { end(); }
  IdleHolder(const IdleHolder&) = delete;
  pid_t process() const { return process_; }
  void end() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    if (process_ > 0) ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_ = -1;
};

TEST_F(Text, IsNotWaitedForWithoutProgress) {
  const std::string path = folder_.file("a.txt", "abcdef");
  all_ids(path);
  const fs::path file = cache_file();
  fs::remove(file);
  IdleHolder holder(file.string() + ".lock");
  TextOptions options;
  options.timeout = std::chrono::milliseconds(150);
  EXPECT_ERROR(open(path, 4, options), WEFT_UNAVAILABLE, "a.txt: waited 0.15 s", file.string() + ".lock",
               "process " + std::to_string(holder.process()) + " on host", "--timeout");
  // With progress it is waited for, however long it takes.
  options.timeout = std::chrono::seconds(1);
  std::jthread progress([&] {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    while (Clock::now() - begin < 1.3 * options.timeout) {
      utimensat(AT_FDCWD, (file.string() + ".lock").c_str(), nullptr, 0);
      std::this_thread::yield();
    }
    holder.end();
  });
  EXPECT_EQ(open(path, 4, options)->size(), 2);
  progress.join();
}

}  // namespace
}  // namespace weft::data
