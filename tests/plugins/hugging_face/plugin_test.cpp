// The C table, as a host uses it.
#include "weft/plugin.h"

#include "support.hpp"
#include "weft/checkpoint_io.h"

struct weft_error {
  int calls = 0;
  weft_status status = WEFT_OK;
  std::string text;
};

namespace weft::hugging_face::test {
namespace {

void error_set(weft_error* error, weft_status status, weft_str text) {
  ++error->calls;
  error->status = status;
  error->text.assign(text.data, text.size);
}

const weft_host kHost = {sizeof(weft_host), error_set, nullptr, nullptr};

weft_query_request request() {
  weft_query_request request{};
  request.struct_size = sizeof(request);
  request.abi_major = WEFT_ABI_MAJOR;
  request.abi_minor_min = request.abi_minor_max = WEFT_ABI_MINOR;
  request.host = &kHost;
  return request;
}

weft_str str(std::string_view text) {
  return {text.data(), text.size()};
}

class PluginTable : public testing::Test {
 protected:
  void SetUp() override {
    const weft_query_request asked = request();
    weft_query_reply reply{};
    reply.struct_size = sizeof(reply);
    ASSERT_EQ(weft_plugin_query_v1(&asked, &reply, &error_), WEFT_OK);
    EXPECT_EQ(reply.tier, static_cast<uint32_t>(WEFT_TIER_C));
    EXPECT_EQ(reply.plugin->get_factory(reply.plugin, WEFT_STR("weft.factory.strategy/1")), nullptr);
    const auto* factory = static_cast<const weft_checkpoint_io_factory*>(
        reply.plugin->get_factory(reply.plugin, WEFT_STR(WEFT_FACTORY_CHECKPOINT_IO)));
    ASSERT_NE(factory, nullptr);
    EXPECT_EQ(factory->find(factory, WEFT_STR("other")), nullptr);
    io_ = factory->find(factory, WEFT_STR("hugging_face"));
    EXPECT_EQ(factory->find(factory, WEFT_STR("safetensors")), io_);
    EXPECT_EQ(factory->find(factory, WEFT_STR("pytorch")), io_);
    ASSERT_NE(io_, nullptr);
    ASSERT_EQ(io_->struct_size, sizeof(weft_checkpoint_io));
  }
  void expect_failed(weft_status returned, weft_status status, const std::string& part,
                     const char* more = "") {
    EXPECT_EQ(returned, status);
    EXPECT_EQ(error_.status, status);
    EXPECT_EQ(error_.calls, 1);
    EXPECT_NE(error_.text.find(part), std::string::npos) << error_.text;
    EXPECT_NE(error_.text.find(more), std::string::npos) << error_.text;
    error_ = {};
  }
  static weft_tensor_entry c_entry(std::string_view name, uint32_t dtype, std::vector<int64_t> shape) {
    weft_tensor_entry entry{};
    entry.struct_size = sizeof(entry);
    entry.name = str(name);
    entry.dtype = dtype;
    entry.ndim = static_cast<uint32_t>(shape.size());
    for (std::size_t dim = 0; dim < std::min<std::size_t>(shape.size(), WEFT_MAX_DIMS); ++dim)
      entry.shape[dim] = shape[dim];
    return entry;
  }
  weft_status create(const std::vector<weft_kv>& options, const std::vector<weft_tensor_entry>& entries,
                     std::string_view name = "hugging_face") {
    std::vector<const weft_tensor_entry*> pointers;
    for (const weft_tensor_entry& entry : entries) pointers.push_back(&entry);
    return io_->create(io_, str(name), str(path_), options.data(), options.size(), pointers.data(),
                       pointers.size(), &writer_, &error_);
  }
  weft_status open(std::string_view path, weft_checkpoint_reader** reader) {
    return io_->open(io_, WEFT_STR("hugging_face"), str(path), reader, &error_);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "model";
  const weft_checkpoint_io* io_ = nullptr;
  weft_checkpoint_writer* writer_ = nullptr;
  weft_error error_;
};

weft_kv option(std::string_view key, uint32_t kind, int64_t integer, std::string_view text = "") {
  return {str(key), kind, 0, integer, 0, str(text)};
}

TEST(PluginQuery, RefusesAnotherAbi) {
  weft_error error;
  weft_query_reply reply{};
  reply.struct_size = sizeof(reply);
  weft_query_request asked = request();
  asked.abi_major = WEFT_ABI_MAJOR + 1;
  EXPECT_EQ(weft_plugin_query_v1(&asked, &reply, &error), WEFT_FAILED_PRECONDITION);
  asked = request();
  asked.abi_minor_min = asked.abi_minor_max = WEFT_ABI_MINOR + 1;
  EXPECT_EQ(weft_plugin_query_v1(&asked, &reply, &error), WEFT_FAILED_PRECONDITION);
  EXPECT_EQ(reply.plugin, nullptr);
}

TEST_F(PluginTable, RefusesOptionsThatItDoesNotKnow) {
  const auto expect_refused = [&](weft_kv given, const std::string& part, const char* more = "") {
    expect_failed(create({given}, {}), WEFT_INVALID_ARGUMENT, part, more);
    EXPECT_EQ(writer_, nullptr);
  };
  expect_refused(option("shards", WEFT_KIND_BOOL, 1), "unknown option \"shards\"", "shard, size_per_shard");
  expect_refused(option("shard", WEFT_KIND_INT, 1), "shard must", "bool");
  expect_refused(option("size_per_shard", WEFT_KIND_TEXT, 0, "1GB"), "size_per_shard", "integer");
  expect_refused(option("size_per_shard", WEFT_KIND_INT, 0), "is 0 MB");
  expect_refused(option("prefix", WEFT_KIND_INT, 3), "prefix must", "text");
  expect_refused(option("metadata.format", WEFT_KIND_TEXT, 0, "tf"), "metadata.format");
}

TEST_F(PluginTable, RefusesEntriesThatItDoesNotKnow) {
  expect_failed(create({}, {c_entry("a", 99, {1})}), WEFT_INVALID_ARGUMENT, "\"a\": element type 99");
  expect_failed(create({}, {c_entry("a", WEFT_F32, std::vector<int64_t>(9, 1))}), WEFT_INVALID_ARGUMENT,
                "9 dimensions");
  weft_tensor_entry small = c_entry("a", WEFT_F32, {1});
  small.struct_size = 8;
  expect_failed(create({}, {small}), WEFT_INVALID_ARGUMENT, "struct_size is 8");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(PluginTable, ReportsFailuresThroughTheSink) {
  weft_checkpoint_reader* reader = nullptr;
  expect_failed(open(path_, &reader), WEFT_NOT_FOUND, path_);
  expect_failed(open(std::string_view("a\0b", 3), &reader), WEFT_INVALID_ARGUMENT, "NUL");
  expect_failed(open(path_, nullptr), WEFT_INVALID_ARGUMENT, "null");
  expect_failed(io_->read(nullptr, 0, nullptr, nullptr, nullptr, 0, &error_), WEFT_INVALID_ARGUMENT, "null");
  expect_failed(io_->commit(nullptr, &error_), WEFT_INVALID_ARGUMENT, "null");
  EXPECT_EQ(reader, nullptr);
  io_->close(nullptr);
  io_->abandon(nullptr);
}

TEST_F(PluginTable, ACommitThatFailsDestroysTheWriter) {
  ASSERT_EQ(create({}, {c_entry("a", WEFT_F32, {2})}), WEFT_OK) << error_.text;
  expect_failed(io_->commit(writer_, &error_), WEFT_FAILED_PRECONDITION, "never written");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(PluginTable, WritesTheFilesOfItsName) {
  const auto file_written_as = [&](const char* name) {
    EXPECT_EQ(create({}, {}, name), WEFT_OK) << error_.text;
    EXPECT_EQ(io_->commit(writer_, &error_), WEFT_OK) << error_.text;
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path_)) files.push_back(entry.path().filename().string());
    fs::remove_all(path_);
    return files;
  };
  EXPECT_EQ(file_written_as("hugging_face"), std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(file_written_as("safetensors"), std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(file_written_as("pytorch"), std::vector<std::string>{"pytorch_model.bin"});
  expect_failed(create({option("use_safetensors", WEFT_KIND_BOOL, 0)}, {}, "safetensors"),
                WEFT_INVALID_ARGUMENT, "use_safetensors is false", "safetensors");
}

TEST_F(PluginTable, OwnsTheFilesThatASaveReplaces) {
  const auto owns = [&](const char* file, const char* prefix = "") {
    return io_->owns(io_, str(file), str(prefix)) != 0;
  };
  for (const char* file : {"model.safetensors", "pytorch_model.bin", "model.safetensors.index.json",
                           "model-00001-of-00002.safetensors", "pytorch_model-00001-of-00002.bin"})
    EXPECT_TRUE(owns(file)) << file;
  for (const char* file : {"config.json", "model.ema.safetensors", "adapter_model.safetensors", ""})
    EXPECT_FALSE(owns(file)) << file;
  EXPECT_TRUE(owns("model.ema.safetensors", "ema"));
  EXPECT_FALSE(owns("model.safetensors", "ema"));
}

TEST_F(PluginTable, WritesAndReads) {
  const std::vector<weft_kv> options = {
      option("shard", WEFT_KIND_BOOL, 1), option("size_per_shard", WEFT_KIND_INT, 1),
      option("prefix", WEFT_KIND_NONE, 0), option("metadata.step", WEFT_KIND_TEXT, 0, "7")};
  ASSERT_EQ(create(options, {c_entry("a", WEFT_F32, {2, 2}), c_entry("b", WEFT_I64, {})}), WEFT_OK)
      << error_.text;
  const float rows[] = {1, 2, 3, 4};
  const int64_t scalar = 5, second_row[] = {1, 0}, first_row[] = {0, 0}, one_row[] = {1, 2};
  ASSERT_EQ(io_->write(writer_, 0, second_row, one_row, rows + 2, 8, &error_), WEFT_OK);
  ASSERT_EQ(io_->write(writer_, 0, first_row, one_row, rows, 8, &error_), WEFT_OK);
  ASSERT_EQ(io_->write(writer_, 1, nullptr, nullptr, &scalar, 8, &error_), WEFT_OK);
  ASSERT_EQ(io_->commit(writer_, &error_), WEFT_OK) << error_.text;
  EXPECT_EQ(io_->recognises(io_, str(path_)), 1u);

  weft_checkpoint_reader* reader = nullptr;
  ASSERT_EQ(open(path_, &reader), WEFT_OK) << error_.text;
  ASSERT_EQ(io_->num_tensors(reader), 2u);
  weft_tensor_entry described = c_entry("", 0, {});
  ASSERT_EQ(io_->tensor(reader, 0, &described, &error_), WEFT_OK);
  EXPECT_EQ(std::string(described.name.data, described.name.size), "a");
  EXPECT_EQ(described.dtype, static_cast<uint32_t>(WEFT_F32));
  EXPECT_EQ(described.ndim, 2u);
  EXPECT_EQ(described.shape[1], 2);
  const int64_t column[] = {0, 1}, two_rows[] = {2, 1};
  float values[2];
  ASSERT_EQ(io_->read(reader, 0, column, two_rows, values, 8, &error_), WEFT_OK);
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[1], 4);
  expect_failed(io_->tensor(reader, 2, &described, &error_), WEFT_OUT_OF_RANGE, "has 2");
  const weft_str step = io_->metadata(reader, WEFT_STR("step"));
  EXPECT_EQ(std::string(step.data, step.size), "7");
  EXPECT_EQ(io_->metadata(reader, WEFT_STR("none")).data, nullptr);
  io_->close(reader);
}

}  // namespace
}  // namespace weft::hugging_face::test
