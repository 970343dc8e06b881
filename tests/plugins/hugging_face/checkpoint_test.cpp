// Folders, names, shards and options.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "support.hpp"
#include "support/sanitized.hpp"

namespace weft::hugging_face::test {
namespace {

using Names = std::vector<std::string>;

// 3 shards of at most 1 MB in this order: {a, b}, {large}, {c}.
std::vector<TensorEntry> sharded_entries() {
  return {entry("a", WEFT_F32, {1000}), entry("b", WEFT_F32, {100, 100}), entry("large", WEFT_F32, {1 << 20}),
          entry("c", WEFT_U8, {3})};
}

const WriteOptions kSharded{.shard = true, .size_per_shard = 1};

constexpr double kSlow = weft::test::kSanitized ? 10 : 1;

class Checkpoint : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(Checkpoint, NamesWhatWasLookedFor) {
  expect_error(WEFT_NOT_FOUND, {folder_ / "nowhere", "model.safetensors.index.json", "pytorch_model.bin"},
               [&] { CheckpointReader{folder_ / "nowhere"}; });
  expect_error(WEFT_NOT_FOUND, {folder_.path(), "model.safetensors.index.json", "holds nothing"},
               [&] { CheckpointReader{folder_.path()}; });
  write_file(folder_ / "config.json", "{}");
  expect_error(WEFT_NOT_FOUND, {"it holds config.json"}, [&] { CheckpointReader{folder_.path()}; });
  write_file(folder_ / "notes.txt", "hello, this is no checkpoint");
  expect_error(WEFT_DATA_LOSS, {"notes.txt", "neither"}, [&] { CheckpointReader{folder_ / "notes.txt"}; });
}

TEST_F(Checkpoint, RefusesAFolderWithSeveralCheckpoints) {
  save(folder_.path(), sharded_entries(), kSharded);
  save(folder_ / "one.safetensors", varied_entries());
  fs::rename(folder_ / "one.safetensors", folder_ / "model.safetensors");
  expect_error(WEFT_INVALID_ARGUMENT,
               {folder_.path(), "model.safetensors, model.safetensors.index.json", "keep the one"},
               [&] { CheckpointReader{folder_.path()}; });
  expect_holds(folder_ / "model.safetensors", varied_entries());
  fs::rename(folder_ / "model.safetensors.index.json", folder_ / "elsewhere");
  expect_holds(folder_.path(), varied_entries());
  fs::rename(folder_ / "elsewhere", folder_ / "model.safetensors.index.json");
  fs::remove(folder_ / "model.safetensors");
  expect_holds(folder_.path(), sharded_entries());
}

// A file that took the place of shards leaves their index where it was.
TEST_F(Checkpoint, PassesOverAnIndexWhoseShardsAreGone) {
  save(folder_.path(), sharded_entries(), kSharded);
  save(folder_ / "one.safetensors", varied_entries());
  fs::rename(folder_ / "one.safetensors", folder_ / "model.safetensors");
  fs::remove(folder_ / "model-00002-of-00003.safetensors");
  expect_holds(folder_.path(), varied_entries());
  write_file(folder_ / "model.safetensors.index.json", "{");
  expect_error(WEFT_DATA_LOSS, {"model.safetensors.index.json", "not valid JSON"},
               [&] { CheckpointReader{folder_.path()}; });
}

TEST_F(Checkpoint, SaysThatAFileIsAGitLfsPointer) {
  const char* const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
  const auto expect_said = [&](const std::string& name, const std::string& opened) {
    expect_error(WEFT_DATA_LOSS, {folder_ / name, "Git LFS pointer", "git lfs pull"},
                 [&] { CheckpointReader{opened}; });
  };
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "x.pt"}) {
    write_file(folder_ / name, pointer);
    EXPECT_TRUE(recognises(folder_ / name)) << name;
    expect_said(name, folder_ / name);
    if (std::string(name) != "x.pt") expect_said(name, folder_.path());
    fs::remove(folder_ / name);
  }
  save(folder_.path(), sharded_entries(), kSharded);
  write_file(folder_ / "model-00002-of-00003.safetensors", pointer);
  expect_said("model-00002-of-00003.safetensors", folder_.path());
}

TEST_F(Checkpoint, PrefersSafetensorsAndThePlainName) {
  save(folder_ / "pytorch_model.bin", varied_entries(), {}, 1);
  expect_holds(folder_.path(), varied_entries(), 1);
  save(folder_ / "model.ema.safetensors", varied_entries(), {}, 2);
  expect_holds(folder_.path(), varied_entries(), 1);
  fs::remove(folder_ / "pytorch_model.bin");
  expect_holds(folder_.path(), varied_entries(), 2);
  save(folder_ / "pytorch_model.bin", varied_entries(), {}, 1);
  save(folder_ / "model.safetensors", varied_entries(), {}, 3);
  expect_holds(folder_.path(), varied_entries(), 3);
}

TEST_F(Checkpoint, NamesTheMissingShard) {
  save(folder_.path(), sharded_entries(), kSharded);
  fs::remove(folder_ / "model-00002-of-00003.safetensors");
  expect_error(WEFT_NOT_FOUND,
               {"model-00002-of-00003.safetensors is missing", "model.safetensors.index.json", "\"large\""},
               [&] { CheckpointReader{folder_.path()}; });
}

TEST_F(Checkpoint, RefusesAnIndexThatDisagreesWithTheShards) {
  save(folder_.path(), sharded_entries(), kSharded);
  const std::string path = folder_ / "model.safetensors.index.json";
  const auto expect_refused = [&](const std::vector<std::string>& parts, const std::string& index) {
    write_file(path, index);
    expect_error(WEFT_DATA_LOSS, parts, [&] { CheckpointReader{path}; });
  };
  expect_refused({"00001-of-00003", "tensor \"d\"", path},
                 R"({"weight_map":{"d":"model-00001-of-00003.safetensors"}})");
  expect_refused({"\"../secret\"", "file name"}, R"({"weight_map":{"a":"../secret"}})");
  expect_refused({"\"/etc/passwd\""}, R"({"weight_map":{"a":"/etc/passwd"}})");
  expect_refused({"no object \"weight_map\""}, R"({"metadata":{}})");
  expect_refused({"no object \"weight_map\""}, "[]");
  expect_refused({"not valid JSON"}, "{");
  expect_refused({"\"a\"", "no file"}, R"({"weight_map":{"a":1}})");
  expect_refused({"\"a\" twice"}, R"({"weight_map":{"a":"x","a":"y"}})");
}

TEST_F(Checkpoint, ShardsByTheLimitAndKeepsALargerTensorWhole) {
  save(folder_.path(), sharded_entries(), kSharded);
  EXPECT_EQ(file_names(folder_.path()),
            (Names{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                   "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  expect_holds(folder_.path(), sharded_entries());
  expect_holds(folder_ / "model.safetensors.index.json", sharded_entries());
  expect_holds(folder_ / "model-00003-of-00003.safetensors", {sharded_entries()[3]});
  const auto index = read_file(folder_ / "model.safetensors.index.json");
  EXPECT_NE(index.find("\"total_size\": 4238307"), std::string::npos) << index;
}

TEST(Shards, AreFilledInOrder) {
  using Plan = std::vector<std::vector<std::size_t>>;
  const std::vector<TensorEntry> entries = {entry("a", WEFT_U8, {4}), entry("b", WEFT_U8, {6}),
                                            entry("c", WEFT_U8, {1}), entry("d", WEFT_U8, {30}),
                                            entry("e", WEFT_U8, {0}), entry("f", WEFT_U8, {1})};
  EXPECT_EQ(plan_shards(entries, 10), (Plan{{0, 1}, {2}, {3}, {4, 5}}));
  EXPECT_EQ(plan_shards(entries, 1000), (Plan{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(plan_shards({}, 10), (Plan{{}}));
}

TEST_F(Checkpoint, WritesTorchShardsToo) {
  WriteOptions options = kSharded;
  options.use_safetensors = false;
  save(folder_.path(), sharded_entries(), options);
  EXPECT_EQ(file_names(folder_.path()),
            (Names{"pytorch_model-00001-of-00003.bin", "pytorch_model-00002-of-00003.bin",
                   "pytorch_model-00003-of-00003.bin", "pytorch_model.bin.index.json"}));
  expect_holds(folder_.path(), sharded_entries());
}

TEST_F(Checkpoint, PutsThePrefixWhereColossalAiPutsIt) {
  WriteOptions options = kSharded;
  options.prefix = "my-ema";
  save(folder_.path(), sharded_entries(), options);
  EXPECT_EQ(file_names(folder_.path()),
            (Names{"model.my-ema-00001-of-00003.safetensors", "model.my-ema-00002-of-00003.safetensors",
                   "model.my-ema-00003-of-00003.safetensors", "model.safetensors.index.my-ema.json"}));
  expect_holds(folder_.path(), sharded_entries());
  save(folder_.path(), varied_entries(), {.prefix = "other"});
  EXPECT_TRUE(fs::exists(folder_ / "model.other.safetensors"));
  expect_error(WEFT_INVALID_ARGUMENT, {"several checkpoints"}, [&] { CheckpointReader{folder_.path()}; });
  expect_holds(folder_ / "model.safetensors.index.my-ema.json", sharded_entries());
}

TEST_F(Checkpoint, ASaveReplacesEveryLayoutOfTheOneBefore) {
  WriteOptions torch = kSharded;
  torch.use_safetensors = false;
  const std::vector<WriteOptions> layouts = {{}, kSharded, torch,    {.use_safetensors = false},
                                             {}, torch,    kSharded, {}};
  write_file(folder_ / "config.json", "{}");
  write_file(folder_ / "model.other.safetensors", "kept");
  for (unsigned seed = 0; seed < layouts.size(); ++seed) {
    save(folder_.path(), sharded_entries(), layouts[seed], seed);
    expect_holds(folder_.path(), sharded_entries(), seed);
    const std::size_t own = layouts[seed].shard ? 4 : 1;
    EXPECT_EQ(file_names(folder_.path()).size(), own + 2)
        << testing::PrintToString(file_names(folder_.path()));
  }
  EXPECT_EQ(read_file(folder_ / "model.other.safetensors"), "kept");
}

TEST_F(Checkpoint, RefusesContradictoryOptions) {
  const std::vector<TensorEntry> entries = varied_entries();
  const auto expect_refused = [&](const std::vector<std::string>& parts, const std::string& path,
                                  WriteOptions options) {
    expect_error(WEFT_INVALID_ARGUMENT, parts, [&] { CheckpointWriter(path, options, entries); });
  };
  expect_refused({"a folder"}, folder_ / "x.safetensors", kSharded);
  expect_refused({"prefix \"p\"", "a file"}, folder_ / "x.safetensors", {.prefix = "p"});
  expect_refused({"use_safetensors is true", "*.bin"}, folder_ / "x.bin", {.use_safetensors = true});
  expect_refused({"use_safetensors is false", "*.safetensors"}, folder_ / "x.safetensors",
                 {.use_safetensors = false});
  expect_refused({"prefix \"../x\""}, folder_.path(), {.prefix = "../x"});
  expect_refused({"size_per_shard is 0"}, folder_.path(), {.shard = true, .size_per_shard = 0});
  expect_refused({"is empty"}, "", {});
  expect_refused({"neither a"}, "/dev/null", {});
  expect_error(WEFT_NOT_FOUND, {"no folder"},
               [&] { CheckpointWriter(folder_ / "none/x.safetensors", {}, entries); });
  EXPECT_TRUE(file_names(folder_.path()).empty());
}

TEST_F(Checkpoint, RefusesEntriesThatCannotBeSaved) {
  const auto expect_refused = [&](const std::vector<std::string>& parts, std::vector<TensorEntry> entries) {
    expect_error(WEFT_INVALID_ARGUMENT, parts, [&] { CheckpointWriter(folder_ / "new", {}, entries); });
  };
  expect_refused({"\"a\"", "saved twice"}, {entry("a", WEFT_F32, {1}), entry("a", WEFT_F32, {1})});
  expect_refused({"\"a\"", "[-1]"}, {entry("a", WEFT_F32, {-1})});
  expect_refused({"\"a\""}, {entry("a", WEFT_F32, {INT64_MAX, INT64_MAX})});
  expect_refused({"\"__metadata__\""}, {entry("__metadata__", WEFT_F32, {1})});
  expect_refused({"not UTF-8"}, {entry("\xff", WEFT_F32, {1})});
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(Checkpoint, AnAbandonedSaveLeavesEverythingAsItWas) {
  save(folder_ / "old", sharded_entries(), kSharded, 1);
  const Names before = file_names(folder_ / "old");
  for (const std::string& path : {folder_ / "old", folder_ / "new/er", folder_ / "x.bin"}) {
    CheckpointWriter writer(path, {}, varied_entries());
    write_all(writer, varied_entries());
  }
  EXPECT_EQ(file_names(folder_ / "old"), before);
  EXPECT_EQ(file_names(folder_.path()), Names{"old"});
  expect_holds(folder_ / "old", sharded_entries(), 1);
}

TEST_F(Checkpoint, MakesTheFolderAndGivesUsualNames) {
  save(folder_ / "a/b.1", varied_entries());
  EXPECT_EQ(file_names(folder_ / "a/b.1"), Names{"model.safetensors"});
  save(folder_ / "c", varied_entries(), {.use_safetensors = false});
  EXPECT_EQ(file_names(folder_ / "c"), Names{"pytorch_model.bin"});
  save(folder_ / "d", {});
  expect_holds(folder_ / "d", {});
}

TEST_F(Checkpoint, AMappedReaderKeepsTheFileThatASaveReplaces) {
  save(folder_.path(), varied_entries(), {}, 1);
  const CheckpointReader reader(folder_.path());
  save(folder_.path(), varied_entries(), {}, 2);
  for (uint64_t i = 0; i < reader.num_tensors(); ++i)
    EXPECT_EQ(read_whole(reader, i), pattern(reader.tensor(i), 1));
}

// 80,000 tensors took 15 seconds, and twice as many four times that.
TEST_F(Checkpoint, ManyTensorsAreReadInTimeThatGrowsWithTheirNumber) {
  constexpr int kTensors = 80'000 / kSlow;
  std::vector<TensorEntry> entries;
  for (int i = 0; i < kTensors; ++i)
    entries.push_back(entry("model.layers." + std::to_string(i) + ".weight", WEFT_F32, {1}));
  for (const WriteOptions& options : {WriteOptions{}, kSharded, WriteOptions{.use_safetensors = false}}) {
    const std::string folder = folder_ / (options.shard ? "shards" : "file");
    save(folder, entries, options);
    const std::clock_t begin = std::clock();
    EXPECT_EQ(CheckpointReader(folder).num_tensors(), entries.size());
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 3);
    std::printf("%d tensors of %s in %.2f s\n", kTensors, file_names(folder).back().c_str(), seconds);
    fs::remove_all(folder);
  }
}

TEST_F(Checkpoint, RefusesDescriptionsThatWouldFillMemory) {
  std::string index = R"({"weight_map":{"a":[0)";
  for (int i = 0; i < 4'000'000; ++i) index += ",0";
  write_file(folder_ / "model.safetensors.index.json", index + "]}}");
  expect_error(WEFT_DATA_LOSS, {"model.safetensors.index.json", "more than 4000000 values"},
               [&] { CheckpointReader{folder_.path()}; });
}

TEST_F(Checkpoint, AFileThatWasCutIsAnErrorAndNotTheEndOfTheProcess) {
  for (const char* name : {"model.safetensors", "pytorch_model.bin"}) {
    const std::string path = folder_ / name;
    save(path, {entry("a", WEFT_F32, {100'000})});
    const CheckpointReader reader(path);
    const std::size_t size = fs::file_size(path);
    fs::resize_file(path, 5000);
    expect_error(WEFT_DATA_LOSS,
                 {path, "became shorter", "had " + std::to_string(size) + " bytes", "has 5000"},
                 [&] { read_whole(reader, 0); });
  }
}

// While it lives this process may open no more than `count` further files.
class FewDescriptors {
 public:
  explicit FewDescriptors(int count) {
    const int next = dup(STDERR_FILENO);
    close(next);
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few = {static_cast<rlim_t>(next + count), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;

 private:
  rlimit before_ = {};
};

TEST_F(Checkpoint, MayHaveMoreFilesThanAProcessMayOpen) {
  std::vector<TensorEntry> entries;
  for (int i = 10; i < 40; ++i) entries.push_back(entry("t" + std::to_string(i), WEFT_U8, {1'000'000}));
  for (const bool use_safetensors : {true, false}) {
    const std::string folder = folder_ / (use_safetensors ? "safetensors" : "torch");
    save(folder, entries, {.shard = true, .size_per_shard = 1, .use_safetensors = use_safetensors});
    EXPECT_GT(file_names(folder).size(), 20u);
    const FewDescriptors few(6);
    expect_holds(folder, entries);
  }
}

// What is mapped is another file than that of its name, which may be as short as it wants.
TEST_F(Checkpoint, AReaderOfAFileThatWasReplacedDoesNotAskTheNewOne) {
  const std::string path = folder_ / "model.safetensors";
  const std::vector<TensorEntry> entries = {entry("a", WEFT_F32, {100'000})};
  save(path, entries);
  const CheckpointReader reader(path);
  const std::string before = read_whole(reader, 0);
  write_file(folder_ / "short", "short");
  fs::rename(folder_ / "short", path);
  EXPECT_EQ(read_whole(reader, 0), before);
  fs::remove(path);
  EXPECT_EQ(read_whole(reader, 0), before);
}

TEST_F(Checkpoint, IsRecognisedByNamesAndFirstBytes) {
  EXPECT_FALSE(recognises(folder_.path()));
  EXPECT_FALSE(recognises(folder_ / "nowhere"));
  write_file(folder_ / "config.json", "{}");
  EXPECT_FALSE(recognises(folder_ / "config.json"));
  save(folder_ / "x", sharded_entries(), kSharded);
  save(folder_ / "y", sharded_entries(), {.use_safetensors = false});
  for (const char* path : {"x", "y", "x/model.safetensors.index.json", "x/model-00001-of-00003.safetensors",
                           "y/pytorch_model.bin"}) {
    EXPECT_TRUE(recognises(folder_ / path)) << path;
  }
}

}  // namespace
}  // namespace weft::hugging_face::test
