// Loading the engine, and the one libtorch of a process. What is mapped stays mapped, so the order of the
// cases counts, and they are a program of their own.
#include <dlfcn.h>

#include <filesystem>

#include "base/dynamic_library.hpp"
#include "base/text.hpp"
#include "host/engine.hpp"
#include "host/expect_error.hpp"
#include "host/host_table.hpp"
#include "host/plugin_root.hpp"

namespace weft::host {
namespace {

using nlohmann::json;
using testing::PluginRoot;

HostFacts facts_with(const char* engine) {
  HostFacts facts = PluginRoot::facts();
  facts.engine = std::string(TEST_LIBRARIES) + "/" + engine;
  return facts;
}

const LoadedLibrary& load_strategy(const PluginRoot& root, const HostFacts& facts) {
  const Catalogue catalogue = root.scan();
  return resolve(catalogue, facts, "strategy", "delta", "");
}

void install_strategy(PluginRoot& root) {
  root.install("strategy", "delta", "1.0.0", [](json& manifest) {
    json& library = manifest["libraries"][0];
    library["kind"] = "strategy";
    library["tier"] = "torch";
    library["provides"] = {"delta"};
    library["torch_tag"] = testing::kTorchTag;
  });
}

TEST(Engine, A_IsRefusedWhereItIsMissingOrNotTheEngine) {
  EXPECT_ERROR(load_engine(facts_with("nothing.so")), WEFT_NOT_FOUND, "DLOPEN", "nothing.so",
               "install Weft whole");
  EXPECT_ERROR(load_engine(facts_with("missing_symbol.so")), WEFT_FAILED_PRECONDITION, "DLOPEN", "not load");
  EXPECT_ERROR(load_engine(facts_with("empty.so")), WEFT_FAILED_PRECONDITION, "ENTRY", "weft_engine_v0");
  EXPECT_ERROR(load_engine(facts_with("engine_without_table.so")), WEFT_FAILED_PRECONDITION, "ENTRY");
  EXPECT_EQ(engine_if_loaded(), nullptr);
}

TEST(Engine, B_OfAnotherBuildIsRefusedWithBoth) {
  EXPECT_ERROR(load_engine(facts_with("engine_of_another_build.so")), WEFT_FAILED_PRECONDITION, "NEGOTIATE",
               "build another", "build build");
  EXPECT_EQ(engine_if_loaded(), nullptr);
}

TEST(Engine, C_IsLoadedOnceAndServesExtensions) {
  EXPECT_EQ(host_table().get_extension(WEFT_STR("weft.model/1")), nullptr);
  const weft_engine_table& engine = load_engine(facts_with("engine.so"));
  EXPECT_EQ(&load_engine(facts_with("nothing.so")), &engine);
  EXPECT_EQ(engine_if_loaded(), &engine);
  EXPECT_EQ(*static_cast<const int*>(host_table().get_extension(WEFT_STR("weft.model/1"))), 42);
}

TEST(OneTorch, D_IsMissedByATierThatNeedsIt) {
  PluginRoot root;
  install_strategy(root);
  EXPECT_ERROR(load_strategy(root, facts_with("engine.so")), WEFT_FAILED_PRECONDITION, "DOUBLE_TORCH",
               "no libtorch_cpu");
}

TEST(OneTorch, E_IsFoundAndTheStrategyLoads) {
  ASSERT_TRUE(dlopen(TEST_LIBRARIES "/libtorch_cpu.so", RTLD_NOW | RTLD_LOCAL)) << dlerror();
  ASSERT_TRUE(dlopen(TEST_LIBRARIES "/libc10.so", RTLD_NOW | RTLD_LOCAL)) << dlerror();
  EXPECT_EQ(mapped_libraries("libtorch_cpu").size(), 1u);
  EXPECT_TRUE(mapped_libraries("libtorch").empty());
  PluginRoot root;
  install_strategy(root);
  EXPECT_EQ(load_strategy(root, facts_with("engine.so")).tier, uint32_t{WEFT_TIER_TORCH});
}

TEST(OneTorch, F_IsNotTwo) {
  ASSERT_TRUE(dlopen(TEST_LIBRARIES "/libtorch_cpu.so.2.6", RTLD_NOW | RTLD_LOCAL)) << dlerror();
  PluginRoot root;
  install_strategy(root);
  EXPECT_ERROR(load_strategy(root, facts_with("engine.so")), WEFT_FAILED_PRECONDITION, "DOUBLE_TORCH",
               "there are 2 libtorch_cpu", "libtorch_cpu.so.2.6");
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  EXPECT_ERROR(root.load(), WEFT_FAILED_PRECONDITION, "DOUBLE_TORCH");
}

}  // namespace
}  // namespace weft::host
