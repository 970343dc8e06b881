// The C API of weft/runtime.h.
#include <weft/runtime.h>

#include <cstring>
#include <thread>

#include "base/text.hpp"
#include "host/loader.hpp"
#include "host/plugin_root.hpp"

namespace weft {
namespace {

using nlohmann::json;

class RuntimeTest : public ::testing::Test {
 protected:
  ~RuntimeTest() override {
    weft_runtime_destroy(runtime_);
    weft_runtime_destroy(bound_);
    weft_error_destroy(error_);
  }
  weft_status create(const std::string& options) {
    return weft_runtime_create(borrow(options), &runtime_, error_);
  }
  std::string error_text() const { return std::string(view(weft_error_text(error_))); }
  bool error_has(const char* part) const { return error_text().find(part) != std::string::npos; }

  weft_error* error_ = weft_error_create();
  weft_runtime* runtime_ = nullptr;
  weft_runtime* bound_ = nullptr;
};

TEST_F(RuntimeTest, RefusesBadOptions) {
  EXPECT_EQ(create("{"), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(error_has("weft_runtime_create: the options: not valid JSON")) << error_text();
  EXPECT_EQ(create("[]"), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(error_has("an array"));
  EXPECT_EQ(create("{\"plugin_path\": []}"), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(error_has("did you mean \"plugin_paths\"?"));
  EXPECT_EQ(create("{\"plugin_paths\": [1]}"), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(error_has("of texts"));
  EXPECT_EQ(create("{\"safe_mode\": 1}"), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(error_has("or false"));
  EXPECT_EQ(create("{\"safe_mode\": true, \"plugin_paths\": [\"/x\"]}"), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_error_status(error_), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(runtime_, nullptr);
}

TEST_F(RuntimeTest, RefusesNullPointers) {
  weft_loaded loaded = {};
  EXPECT_EQ(weft_runtime_create(WEFT_STR(""), nullptr, error_), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_runtime_load(nullptr, WEFT_STR("strategy"), WEFT_STR("x"), WEFT_STR(""), &loaded, error_),
            WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(error_has("is null"));
  EXPECT_EQ(weft_runtime_list(nullptr, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
  ASSERT_EQ(create(""), WEFT_OK);
  EXPECT_EQ(weft_runtime_load(runtime_, WEFT_STR("strategy"), WEFT_STR("x"), WEFT_STR(""), nullptr, error_),
            WEFT_INVALID_ARGUMENT);
  weft_runtime_destroy(nullptr);
  weft_error_destroy(nullptr);
  weft_text_destroy(weft_str{nullptr, 0});
}

TEST_F(RuntimeTest, RefusesAResultOfNonsenseSizeAndLeavesIt) {
  ASSERT_EQ(create(""), WEFT_OK);
  for (const uint64_t size : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 40}) {
    weft_loaded loaded;
    std::memset(&loaded, 0x5a, sizeof(loaded));
    loaded.struct_size = size;
    const weft_loaded before = loaded;
    EXPECT_EQ(weft_runtime_load(runtime_, WEFT_STR("strategy"), WEFT_STR("x"), WEFT_STR(""), &loaded, error_),
              WEFT_INVALID_ARGUMENT);
    EXPECT_TRUE(error_has("struct_size"));
    EXPECT_EQ(std::memcmp(&loaded, &before, sizeof(loaded)), 0);
  }
}

TEST_F(RuntimeTest, FillsOnlyWhatAnOlderCallerKnows) {
  ASSERT_EQ(create(json({{"plugin_paths", {BUILT_PLUGINS}}}).dump()), WEFT_OK) << error_text();
  weft_loaded loaded;
  std::memset(&loaded, 0x5a, sizeof(loaded));
  loaded.struct_size = WEFT_END_OF(weft_loaded, id);
  ASSERT_EQ(weft_runtime_load(runtime_, WEFT_STR("shard_policy"), WEFT_STR("sample_family"), WEFT_STR(""),
                              &loaded, error_),
            WEFT_OK)
      << error_text();
  EXPECT_EQ(view(loaded.id), "weft_sample_policy");
  EXPECT_EQ(loaded.struct_size, WEFT_END_OF(weft_loaded, id));
  EXPECT_EQ(loaded.version.size, 0x5a5a5a5a5a5a5a5au);
}

TEST_F(RuntimeTest, LoadsAPluginThatWeftAddPluginBuilt) {
  ASSERT_EQ(create(json({{"plugin_paths", {BUILT_PLUGINS}}}).dump()), WEFT_OK) << error_text();
  weft_loaded loaded = {};
  loaded.struct_size = sizeof(loaded);
  EXPECT_EQ(weft_runtime_load(runtime_, WEFT_STR("shard_policy"), WEFT_STR("nothing"), WEFT_STR(""), &loaded,
                              error_),
            WEFT_NOT_FOUND);
  ASSERT_EQ(weft_runtime_load(runtime_, WEFT_STR("shard_policy"), WEFT_STR("other_family"), WEFT_STR("1.4.0"),
                              &loaded, error_),
            WEFT_OK)
      << error_text();
  EXPECT_EQ(view(loaded.version), "1.4.0");
  EXPECT_EQ(view(loaded.kind), "shard_policy");
  EXPECT_EQ(loaded.tier, uint32_t{WEFT_TIER_C});
  EXPECT_EQ(loaded.digest.size, 64u);
  EXPECT_EQ(json::parse(view(loaded.manifest))["options"][0]["name"], "depth");
  EXPECT_NE(loaded.plugin->get_factory(loaded.plugin, WEFT_STR("weft.factory.shard_policy/1")), nullptr);
}

TEST_F(RuntimeTest, BindsTheVersionThatWasAskedFor) {
  testing::PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  root.install("alpha_1.1.0", "alpha", "1.1.0");
  ASSERT_EQ(create(json({{"plugin_paths", {root.path()}}}).dump()), WEFT_OK) << error_text();
  const auto load = [&](const char* name, const char* version) {
    weft_loaded loaded = {};
    loaded.struct_size = sizeof(loaded);
    const weft_status status =
        weft_runtime_load(runtime_, WEFT_STR("shard_policy"), borrow(name), borrow(version), &loaded, error_);
    return status == WEFT_OK ? std::string(view(loaded.version)) : error_text();
  };
  EXPECT_EQ(load("family", ""), "1.1.0");
  EXPECT_EQ(load("family", "1.0.0"), "1.0.0");
  EXPECT_EQ(load("family", ""), "1.0.0");
  EXPECT_EQ(load("family@1", ""), "1.1.0");
  EXPECT_EQ(load("family", ""), "1.1.0");
  weft_runtime* const bound = runtime_;
  ASSERT_EQ(create(json({{"plugin_paths", {root.path()}}}).dump()), WEFT_OK) << error_text();
  EXPECT_EQ(load("family", "1.0"), "1.0.0") << "another runtime";
  std::swap(runtime_, bound_);
  runtime_ = bound;
  EXPECT_EQ(load("family", ""), "1.1.0");
}

TEST_F(RuntimeTest, ListsWhatThereIs) {
  ASSERT_EQ(create(json({{"plugin_paths", {BUILT_PLUGINS}}}).dump()), WEFT_OK);
  weft_str text = {};
  ASSERT_EQ(weft_runtime_list(runtime_, &text, error_), WEFT_OK);
  const json listing = json::parse(view(text));
  weft_text_destroy(text);
  const json& plugin = listing["plugins"][0];
  EXPECT_EQ(plugin["id"], "weft_sample_policy");
  EXPECT_EQ(plugin["provides"], json({"sample_family", "other_family"}));
  EXPECT_EQ(plugin["tier"], "c");
  EXPECT_FALSE(plugin["default"].get<bool>());
  EXPECT_FALSE(plugin.contains("problem")) << plugin["problem"];
  EXPECT_EQ(listing["searched"][0]["path"], BUILT_PLUGINS);
}

TEST_F(RuntimeTest, LoadsFromSeveralThreads) {
  ASSERT_EQ(create(json({{"plugin_paths", {BUILT_PLUGINS}}}).dump()), WEFT_OK);
  const weft_plugin* found[4] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      weft_loaded loaded = {};
      loaded.struct_size = sizeof(loaded);
      if (weft_runtime_load(runtime_, WEFT_STR("shard_policy"), WEFT_STR("sample_family"), WEFT_STR(""),
                            &loaded, nullptr) == WEFT_OK) {
        found[i] = loaded.plugin;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const weft_plugin* plugin : found) {
    EXPECT_NE(plugin, nullptr);
    EXPECT_EQ(plugin, found[0]);
  }
}

TEST(Version, IsTheProjects) {
  EXPECT_TRUE(view(weft_version()).starts_with("0."));
}

TEST(ErrorSink, KeepsTheLastFailure) {
  weft_error* error = weft_error_create();
  EXPECT_EQ(weft_error_status(error), WEFT_OK);
  EXPECT_EQ(weft_error_text(error).size, 0u);
  weft_error_set(error, WEFT_NOT_FOUND, WEFT_STR("first"));
  weft_error_set(error, WEFT_ABORTED, WEFT_STR("second"));
  EXPECT_EQ(weft_error_status(error), WEFT_ABORTED);
  EXPECT_EQ(view(weft_error_text(error)), "second");
  weft_error_set(error, WEFT_ABORTED, {nullptr, 7});
  EXPECT_EQ(view(weft_error_text(error)), "(a text without data)");
  weft_error_destroy(error);
  weft_error_set(nullptr, WEFT_ABORTED, WEFT_STR("x"));
  EXPECT_EQ(weft_error_status(nullptr), WEFT_OK);
}

}  // namespace
}  // namespace weft
