// The checkpoint formats of samples/checkpoint_io_c and samples/checkpoint_io: what they keep and refuse.
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>

#include <filesystem>
#include <random>
#include <thread>

#include "api/samples.hpp"
#include "files/format.hpp"
#include "support/crash.hpp"
#include "support/expect_error.hpp"
#include "support/seed.hpp"
#include "support/slice.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using checkpoint::Entry;
using checkpoint::Reader;
using checkpoint::Writer;

// Divides a box into random ones, in a random order.
std::vector<Box> random_parts(const Box& whole, std::mt19937_64& random) {
  std::vector<Box> parts = {whole};
  for (int cuts = 0; cuts < 6; ++cuts) {
    const size_t chosen = random() % parts.size();
    Box& first = parts[chosen];
    if (first.extent.empty()) break;
    const size_t d = random() % first.extent.size();
    if (first.extent[d] < 2) continue;
    Box second = first;
    const auto size = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(first.extent[d] - 1));
    first.extent[d] = size;
    second.offset[d] += size;
    second.extent[d] -= size;
    parts.push_back(second);
  }
  std::shuffle(parts.begin(), parts.end(), random);
  return parts;
}

at::Tensor part_of(at::Tensor tensor, const Box& box) {
  for (size_t d = 0; d < box.offset.size(); ++d)
    tensor = tensor.narrow(static_cast<int64_t>(d), box.offset[d], box.extent[d]);
  return tensor;
}

class CheckpointFormat : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1); }

  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  checkpoint::WriteOptions options() const {
    checkpoint::WriteOptions options;
    options.metadata = {{"weft.note", "two words, 100 %\nand a line"}, {"empty", ""}};
    options.format = GetParam();
    return options;
  }
  // Writes one tensor of this value.
  void write_filled(const std::string& path, float value) const {
    Writer writer(path, options(), {{"values", at::kFloat, {64, 3}}});
    writer.write(0, Box::whole({64, 3}), at::full({64, 3}, value));
    writer.commit();
  }
  // Returns the value of the tensor that write_filled wrote, whole.
  static float filled_value(const std::string& path) {
    const Reader reader(path);
    const at::Tensor values = reader.read(0);
    EXPECT_TRUE(at::equal(values, at::full({64, 3}, values.flatten()[0].item<float>())));
    return values.flatten()[0].item<float>();
  }
  std::vector<std::string> files_below(const std::string& name) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(in(name)))
      if (entry.is_regular_file()) found.push_back(entry.path().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  TemporaryFolder folder_;
  const uint32_t seed_ = fresh_seed();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "WEFT_TEST_SEED=" + std::to_string(seed_)};
};

TEST_P(CheckpointFormat, KeepsEveryTensorWhateverTheBoxes) {
  std::mt19937_64 random(seed_);
  const std::vector<Entry> entries = {{"h.0.weight", at::kFloat, {7, 5, 3}},
                                      {"scalar", at::kDouble, {}},
                                      {"none", at::kHalf, {4, 0, 2}},
                                      {"a name with % and \xc3\xa9", at::kBFloat16, {33}},
                                      {"ids", at::kLong, {2, 9}},
                                      {"masks", at::kBool, {3, 3, 3}},
                                      {"bytes", at::kByte, {2, 2, 2, 2, 2}},
                                      {"small", at::kShort, {1}}};
  std::vector<at::Tensor> tensors;
  for (const Entry& entry : entries) tensors.push_back(at::randint(0, 100, entry.shape).to(entry.dtype));
  fs::create_directory(in("model"));
  Writer writer(in("model"), options(), entries);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < entries.size(); ++i)
    threads.emplace_back([&, i, parts = random_parts(Box::whole(entries[i].shape), random)] {
      for (const Box& box : parts) writer.write(i, box, part_of(tensors[i], box));
    });
  for (std::thread& thread : threads) thread.join();
  writer.commit();

  const Reader reader(in("model"));
  ASSERT_EQ(reader.entries().size(), entries.size());
  EXPECT_EQ(reader.metadata("weft.note"), options().metadata["weft.note"]);
  EXPECT_EQ(reader.metadata("empty"), "");
  EXPECT_EQ(reader.metadata("none"), std::nullopt);
  for (size_t i = 0; i < entries.size(); ++i) {
    SCOPED_TRACE(entries[i].name);
    const size_t found = reader.find(entries[i].name).value();
    EXPECT_EQ(reader.entries()[found].dtype, entries[i].dtype);
    EXPECT_EQ(reader.entries()[found].shape, entries[i].shape);
    EXPECT_TRUE(at::equal(reader.read(found), tensors[i]));
    for (const Box& box : random_parts(Box::whole(entries[i].shape), random)) {
      const at::Tensor part = at::empty(box.extent, entries[i].dtype);
      reader.read(found, box, part);
      EXPECT_TRUE(at::equal(part, part_of(tensors[i], box)));
    }
  }
}

TEST_P(CheckpointFormat, OpensWhatItWroteWithoutAFolder) {
  write_filled(in("optimizer"), 3);
  EXPECT_EQ(filled_value(in("optimizer")), 3);
  EXPECT_TRUE(checkpoint::recognises(in("optimizer")));
  EXPECT_FALSE(checkpoint::recognises(in("nowhere")));
}

TEST_P(CheckpointFormat, LeavesTheOlderOneUntilTheNewOneIsWhole) {
  fs::create_directory(in("model"));
  write_filled(in("model"), 1);
  const std::vector<std::string> before = files_below("model");
  {
    Writer writer(in("model"), options(), {{"values", at::kFloat, {64, 3}}});
    EXPECT_ERROR(Writer(in("model"), options(), {}), WEFT_UNAVAILABLE, "save");
    writer.write(0, {{0, 0}, {64, 2}}, at::full({64, 2}, 2.F));
    writer.write(0, {{0, 1}, {63, 2}}, at::full({63, 2}, 2.F));
    EXPECT_ERROR(writer.commit(), WEFT_FAILED_PRECONDITION, "values");
  }
  { const Writer abandoned(in("model"), options(), {{"values", at::kFloat, {8}}}); }
  EXPECT_EQ(files_below("model"), before);
  EXPECT_EQ(filled_value(in("model")), 1);
  write_filled(in("model"), 2);
  EXPECT_EQ(filled_value(in("model")), 2);
  EXPECT_EQ(files_below("model").size(), before.size()) << "the older one is gone";
}

TEST_P(CheckpointFormat, RefusesFilesThatAreTruncated) {
  fs::create_directory(in("model"));
  write_filled(in("model"), 1);
  for (const std::string& file : files_below("model")) {
    const std::string bytes = read_bytes(file);
    for (const size_t size : {bytes.size() - 1, bytes.size() / 2, size_t{30}}) {
      SCOPED_TRACE(file + " with " + std::to_string(size) + " bytes");
      fs::resize_file(file, std::min(size, bytes.size()));
      if (size < bytes.size()) {
        EXPECT_ERROR(Reader(in("model")), WEFT_DATA_LOSS, file);
      }
      std::ofstream(file, std::ios::binary) << bytes;
    }
  }
  EXPECT_EQ(filled_value(in("model")), 1);
}

TEST_P(CheckpointFormat, RefusesHeadsThatAreDamaged) {
  fs::create_directory(in("model"));
  write_filled(in("model"), 1);
  std::mt19937_64 random(seed_);
  for (int i = 0; i < 300; ++i) {
    const std::vector<std::string> files = files_below("model");
    const std::string& file = files.back();  // the index, or the only file
    const std::string bytes = read_bytes(file);
    std::string damaged = bytes;
    damaged[random() % std::min<size_t>(bytes.size(), 150)] = static_cast<char>(random());
    std::ofstream(file, std::ios::binary) << damaged;
    try {
      const Reader reader(in("model"));
      for (size_t t = 0; t < reader.entries().size(); ++t) (void)reader.read(t);
    } catch (const Error& error) {
      const bool is_refused = error.status() == WEFT_DATA_LOSS || error.status() == WEFT_NOT_FOUND;
      EXPECT_TRUE(is_refused) << error.status() << ": " << error.what();
    }
    std::ofstream(file, std::ios::binary) << bytes;
  }
  EXPECT_EQ(filled_value(in("model")), 1);
}

TEST_P(CheckpointFormat, RefusesOptionsThatItDoesNotHave) {
  const std::vector<Entry> none;
  checkpoint::WriteOptions asked = options();
  asked.shard = true;
  EXPECT_ERROR(Writer(in("model"), asked, none), WEFT_INVALID_ARGUMENT, "\"shard\"");
  asked = options();
  asked.prefix = "ema";
  EXPECT_ERROR(Writer(in("model"), asked, none), WEFT_INVALID_ARGUMENT, "\"prefix\"");
  asked = options();
  asked.use_safetensors = false;
  EXPECT_ERROR(Writer(in("model"), asked, none), WEFT_INVALID_ARGUMENT, "\"use_safetensors\"");
  EXPECT_ERROR(Writer(in("a.safetensors"), options(), none), WEFT_INVALID_ARGUMENT, GetParam(), "folder");
  EXPECT_ERROR(Writer(in("model"), options(), {{"a", at::kFloat, {1}}, {"a", at::kFloat, {1}}}),
               WEFT_INVALID_ARGUMENT, "twice");
  EXPECT_FALSE(fs::exists(in("model")));
}

TEST_P(CheckpointFormat, KilledAtAnySystemCallLeavesOneWholeCheckpoint) {
  const auto begin_anew = [&] {
    fs::remove_all(in("model"));
    fs::create_directory(in("model"));
    write_filled(in("model"), 1);
  };
  const auto save = [&] { write_filled(in("model"), 2); };
  begin_anew();
  const size_t num_files = files_below("model").size();
  const auto calls = count_system_calls([] {}, save);
  if (!calls) GTEST_SKIP() << "ptrace is not allowed here";
  int num_old = 0, num_new = 0;
  for (const size_t number : draw_slice_with_ends("CheckpointFormat.KilledAtAnySystemCall", *calls, 60)) {
    begin_anew();
    kill_at_system_call(
        number, [] {}, save);
    const float value = filled_value(in("model"));
    ASSERT_TRUE(value == 1 || value == 2) << "killed at call " << number;
    ++(value == 1 ? num_old : num_new);
    write_filled(in("model"), 3);
    EXPECT_EQ(filled_value(in("model")), 3);
    EXPECT_EQ(files_below("model").size(), num_files) << "a save removes what killed ones left";
  }
  EXPECT_GT(num_old, 5);
  EXPECT_GT(num_new, 0);
}

TEST_P(CheckpointFormat, SaysThatTheDiskIsFull) {
  fs::create_directory(in("disk"));
  const auto passed = passes_on_small_disk(in("disk"), 64 << 10, [&] {
    fs::create_directory(in("disk/model"));
    write_filled(in("disk/model"), 1);
    EXPECT_ERROR(Writer(in("disk/model"), options(), {{"large", at::kFloat, {1 << 16}}}),
                 WEFT_RESOURCE_EXHAUSTED, "model");
    EXPECT_EQ(filled_value(in("disk/model")), 1);
  });
  if (!passed) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_TRUE(*passed);
}

INSTANTIATE_TEST_SUITE_P(, CheckpointFormat, testing::Values("raw_files", "packed"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft::test
