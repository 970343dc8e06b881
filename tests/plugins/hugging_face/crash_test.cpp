// Saves that are killed, and disks that are full: what stood there before stays loadable.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "contract/kills.hpp"
#include "file.hpp"
#include "support.hpp"
#include "support/sanitized.hpp"
#include "support/slice.hpp"
#include "support/small_disk.hpp"

namespace weft::hugging_face::test {
namespace {

// A fork under a sanitizer costs much, and the memory of one save is that of another.
constexpr size_t kCases = weft::test::kSanitized ? 12 : SIZE_MAX;

std::vector<TensorEntry> three_shards() {
  return {entry("a", WEFT_F32, {200, 1000}), entry("b", WEFT_F32, {1000, 250}),
          entry("c", WEFT_F32, {90, 1000})};
}

const WriteOptions kSharded{.shard = true, .size_per_shard = 1};

// A child process and a pipe by which it says how far it came.
class Child {
 public:
  explicit Child(const std::function<void(const std::function<void()>& progress)>& body) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    process_ = fork();
    if (process_ == 0) {
      close(ends[0]);
      int status = 1;
      try {
        body([&] { [[maybe_unused]] const auto written = write(ends[1], "x", 1); });
        status = testing::Test::HasFailure() ? 1 : 0;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
      }
      _exit(status);
    }
    close(ends[1]);
    progress_ = ends[0];
  }
  ~Child() { close(progress_); }
  pid_t process() const { return process_; }
  // False when the child has ended.
  bool await_progress() {
    char byte = 0;
    return read(progress_, &byte, 1) == 1;
  }
  void kill() {
    ::kill(process_, SIGKILL);
    int status = 0;
    waitpid(process_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  int exit_status() {
    int status = 0;
    waitpid(process_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t process_ = 0;
  int progress_ = -1;
};

void expect_no_hidden_files(const std::string& folder) {
  for (const std::string& name : file_names(folder)) EXPECT_FALSE(name.starts_with('.')) << name;
}

class Crash : public testing::TestWithParam<bool> {
 protected:
  TemporaryFolder folder_;
};

TEST_P(Crash, SigkillBetweenWritesLeavesTheOldCheckpoint) {
  const WriteOptions options = GetParam() ? kSharded : WriteOptions{};
  save(folder_.path(), three_shards(), options, 1);
  Child child([&](const auto& progress) {
    CheckpointWriter writer(folder_.path(), options, three_shards());
    const std::string bytes = pattern(three_shards()[0], 2);
    writer.write(0, nullptr, nullptr, bytes.data(), bytes.size());
    progress();
    for (;;) pause();
  });
  ASSERT_TRUE(child.await_progress());
  expect_error(WEFT_UNAVAILABLE,
               {"save to " + folder_.path(), "by process " + std::to_string(child.process()) + " on "},
               [&] { CheckpointWriter(folder_.path(), options, three_shards()); });
  child.kill();
  expect_holds(folder_.path(), three_shards(), 1);
  save(folder_.path(), three_shards(), options, 3);
  expect_holds(folder_.path(), three_shards(), 3);
  expect_no_hidden_files(folder_.path());
}

TEST_P(Crash, SigkillAtAnySystemCallOfACommitLeavesOneWholeCheckpoint) {
  const WriteOptions options = GetParam() ? kSharded : WriteOptions{};
  TemporaryFolder folder(TemporaryFolder::kInMemory);
  save(folder.path(), three_shards(), options, 1);
  std::optional<CheckpointWriter> writer;
  const auto prepare = [&] {
    writer.emplace(folder.path(), options, three_shards());
    write_all(*writer, three_shards(), 2);
  };
  const auto commit = [&] {
    writer->commit();
    writer.reset();
  };
  const auto calls = contract::count_system_calls(prepare, commit);
  if (!calls) GTEST_SKIP() << "ptrace is not allowed here";
  bool saw_old = false, saw_new = false;
  for (const size_t number : weft::test::draw_slice_with_ends("Crash", *calls, kCases)) {
    save(folder.path(), three_shards(), options, 1);
    if (!contract::kill_at_system_call(number, prepare, commit)) continue;
    // Which of the two it is shows in any tensor; the others must agree.
    const CheckpointReader reader(folder.path());
    const bool is_new = read_whole(reader, 0) == pattern(reader.tensor(0), 2);
    expect_holds(folder.path(), three_shards(), is_new ? 2 : 1);
    ASSERT_FALSE(HasFailure()) << "killed at call " << number;
    saw_old = saw_old || !is_new;
    saw_new = saw_new || is_new;
  }
  EXPECT_TRUE(saw_old && saw_new);
  save(folder.path(), three_shards(), options, 3);
  expect_holds(folder.path(), three_shards(), 3);
  expect_no_hidden_files(folder.path());
}

INSTANTIATE_TEST_SUITE_P(Layouts, Crash, testing::Bool(),
                         [](const auto& layout) { return layout.param ? "Sharded" : "OneFile"; });

// Puts the files of `source` into `target` under their temporary names.
std::vector<std::string> stage(const std::string& source, const std::string& target) {
  std::vector<std::string> names = file_names(source);
  for (const std::string& name : names)
    fs::copy_file(fs::path(source) / name, partial_path((fs::path(target) / name).string()));
  return names;  // the index sorts last
}

TEST(Commit, BrokenOffAtAnyStepShowsTheNewCheckpointAndIsFinishedByTheNextSave) {
  const std::vector<TensorEntry> entries = three_shards();
  for (const WriteOptions& old_layout :
       {WriteOptions{}, kSharded, WriteOptions{.shard = true, .size_per_shard = 2}}) {
    bool done = false;
    for (uint64_t steps = 0; !done; ++steps) {
      ASSERT_LT(steps, 20u);
      TemporaryFolder folder(TemporaryFolder::kInMemory), next(TemporaryFolder::kInMemory);
      save(folder.path(), entries, old_layout, 1);
      save(next.path(), entries, kSharded, 2);
      const Changes changes = plan_changes(folder.path(), "", stage(next.path(), folder.path()));
      expect_holds(folder.path(), entries, 1);
      write_journal(folder.path(), changes);
      done = apply_changes(folder.path(), changes, steps);
      expect_holds(folder.path(), entries, 2);
      expect_holds(folder / "model.safetensors.index.json", entries, 2);
      if (done) EXPECT_EQ(file_names(folder.path()), file_names(next.path()));
      // A save that is abandoned finishes it as well.
      { CheckpointWriter writer(folder.path(), {}, entries); }
      expect_holds(folder.path(), entries, 2);
      EXPECT_EQ(file_names(folder.path()), file_names(next.path()));
    }
  }
}

TEST(Commit, SparesAFileThatSomebodyElseWroteSince) {
  TemporaryFolder folder, next;
  save(folder.path(), three_shards(), {}, 1);
  save(next.path(), three_shards(), kSharded, 2);
  const Changes changes = plan_changes(folder.path(), "", stage(next.path(), folder.path()));
  ASSERT_EQ(changes.remove.size(), 1u);
  write_journal(folder.path(), changes);
  write_file(folder / "new", "another's");
  fs::rename(folder / "new", folder / "model.safetensors");
  finish_commit(folder.path(), "");
  EXPECT_EQ(read_file(folder / "model.safetensors"), "another's");
}

TEST(Commit, RefusesAJournalThatNamesOtherFiles) {
  TemporaryFolder folder;
  write_file(folder / "precious.txt", "kept");
  for (const char* name : {"precious.txt", "../precious.txt", "/etc/passwd"}) {
    write_file(folder / ".weft-commit.json",
               std::string(R"({"install":["model.safetensors"],"remove":[{"name":")") + name +
                   R"(","inode":1,"modified_ns":1}]})");
    expect_error(WEFT_DATA_LOSS, {".weft-commit.json", "no journal"},
                 [&] { finish_commit(folder.path(), ""); });
    expect_error(WEFT_DATA_LOSS, {".weft-commit.json"}, [&] { CheckpointReader{folder.path()}; });
  }
  EXPECT_EQ(read_file(folder / "precious.txt"), "kept");
}

TEST(Commit, FollowsNoLinkThatHasTheNameOfItsLock) {
  TemporaryFolder folder;
  write_file(folder / "precious", "kept");
  for (const char* target : {"precious", "nothing"}) {
    fs::create_symlink(folder / target, folder / ".weft-save.lock");
    expect_error(WEFT_PERMISSION_DENIED, {".weft-save.lock", "a link"},
                 [&] { CheckpointWriter(folder.path(), {}, three_shards()); });
    fs::remove(folder / ".weft-save.lock");
  }
  EXPECT_EQ(read_file(folder / "precious"), "kept");
  EXPECT_FALSE(fs::exists(folder / "nothing"));
  fs::create_hard_link(folder / "precious", folder / ".weft-save.lock");
  save(folder.path(), three_shards(), {}, 1);
  expect_holds(folder.path(), three_shards(), 1);
  EXPECT_EQ(read_file(folder / "precious"), "kept");
}

TEST(Commit, TwoSavesSideBySideNeedDifferentPrefixes) {
  TemporaryFolder folder;
  CheckpointWriter first(folder.path(), {}, three_shards());
  expect_error(WEFT_UNAVAILABLE, {"another save", "under way"},
               [&] { CheckpointWriter(folder.path(), kSharded, three_shards()); });
  CheckpointWriter second(folder.path(), {.prefix = "ema"}, three_shards());
  CheckpointWriter third(folder / "x.safetensors", {}, three_shards());
  for (CheckpointWriter* writer : {&first, &second, &third}) {
    write_all(*writer, three_shards());
    writer->commit();
  }
  expect_holds(folder.path(), three_shards());
  expect_holds(folder / "model.ema.safetensors", three_shards());
  expect_holds(folder / "x.safetensors", three_shards());
}

// Runs in a child: the old checkpoint of 4 kB fits, the new one of 4 MB does not.
void save_too_much(const std::string& path, const WriteOptions& options, const std::string& reason) {
  const std::vector<TensorEntry> small = {entry("a", WEFT_F32, {1000})},
                                 large = {small[0], entry("b", WEFT_F32, {1 << 20})};
  save(path, small, options, 1);
  const auto before = file_names(path);
  expect_error(WEFT_RESOURCE_EXHAUSTED, {"cannot reserve 419", path, reason, "bytes free"},
               [&] { CheckpointWriter(path, options, large); });
  EXPECT_EQ(file_names(path), before);
  expect_holds(path, small, 1);
  save(path, small, options, 2);
  expect_holds(path, small, 2);
}

TEST_P(Crash, AFileSizeLimitIsFoundBeforeAnythingIsWritten) {
  const WriteOptions options = GetParam() ? kSharded : WriteOptions{};
  Child child([&](const auto&) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    save_too_much(folder_.path(), options, "File too large");
  });
  EXPECT_EQ(child.exit_status(), 0);
}

TEST_P(Crash, AFullDiskIsFoundBeforeAnythingIsWritten) {
  const WriteOptions options = GetParam() ? kSharded : WriteOptions{};
  const auto passed = weft::test::passes_on_small_disk(
      folder_.path(), 1 << 20, [&] { save_too_much(folder_.path(), options, "No space left on device"); });
  if (!passed) GTEST_SKIP() << "a small disk cannot be mounted here";
  EXPECT_TRUE(*passed);
}

}  // namespace
}  // namespace weft::hugging_face::test
