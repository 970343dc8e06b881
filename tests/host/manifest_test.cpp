#include "host/manifest.hpp"

#include <nlohmann/json.hpp>

#include "host/expect_error.hpp"
#include "host/load_error.hpp"
#include "host/semantic_version.hpp"
#include "host/temporary.hpp"

namespace weft::host {
namespace {

using nlohmann::json;

json good_manifest() {
  return json::parse(R"({
    "id": "gemini", "version": "1.4.0", "manifest_version": 1, "description": "chunks", "default": true,
    "abi": {"major": 0, "minor_min": 1, "minor": 1},
    "options": [{"name": "depth", "type": "int", "default": 2}],
    "libraries": [{"file": "gemini_strategy.so", "kind": "strategy", "tier": "torch", "provides": ["gemini"],
                   "torch_tag": "torch=2.11.0", "sha256":
                   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]})");
}

Manifest parse(const json& object) {
  return parse_manifest(object.dump(), "plugin.json");
}

// The good manifest with one place, as a JSON pointer, set to another value.
Manifest parse_with(const char* place, const json& value) {
  json object = good_manifest();
  object[json::json_pointer(place)] = value;
  return parse(object);
}

Manifest parse_without(const char* place, const char* key) {
  json object = good_manifest();
  object[json::json_pointer(place)].erase(key);
  return parse(object);
}

TEST(Manifest, RefusesMissingKeysByName) {
  for (const char* key : {"id", "version", "abi", "libraries", "manifest_version"}) {
    EXPECT_ERROR(parse_without("", key), WEFT_INVALID_ARGUMENT,
                 "MANIFEST: plugin.json has no \"" + std::string(key) + "\"");
  }
  for (const char* key : {"file", "kind", "tier", "provides", "torch_tag", "sha256"}) {
    EXPECT_ERROR(parse_without("/libraries/0", key), WEFT_INVALID_ARGUMENT,
                 "has no \"" + std::string(key) + "\"");
  }
  EXPECT_ERROR(parse_without("/abi", "minor"), WEFT_INVALID_ARGUMENT, "\"abi\" has no \"minor\"");
}

TEST(Manifest, RefusesWrongValuesWithGotAndWanted) {
  EXPECT_ERROR(parse_with("/id", 3), WEFT_INVALID_ARGUMENT, "\"id\" as", "integer");
  EXPECT_ERROR(parse_with("/id", "../x"), WEFT_INVALID_ARGUMENT, "../x");
  EXPECT_ERROR(parse_with("/version", "1.4"), WEFT_INVALID_ARGUMENT, "\"1.4\"", "1.2.3");
  EXPECT_ERROR(parse_with("/manifest_version", 2), WEFT_INVALID_ARGUMENT, "manifest_version 2",
               "update Weft");
  EXPECT_ERROR(parse_with("/abi/minor", -1), WEFT_INVALID_ARGUMENT, "\"minor\" as -1");
  EXPECT_ERROR(parse_with("/abi/minor_min", 9), WEFT_INVALID_ARGUMENT, "minor_min 9 above minor 1");
  EXPECT_ERROR(parse_with("/default", 1), WEFT_INVALID_ARGUMENT, "\"default\"");
  EXPECT_ERROR(parse_with("/libraries", json::array()), WEFT_INVALID_ARGUMENT, "\"libraries\"");
  EXPECT_ERROR(parse_with("/libraries/0/kind", "stategy"), WEFT_INVALID_ARGUMENT, "\"stategy\"",
               "strategy, shard_policy");
  EXPECT_ERROR(parse_with("/libraries/0/tier", "T2"), WEFT_INVALID_ARGUMENT, "\"T2\"",
               "c, torch, native, stable");
  EXPECT_ERROR(parse_with("/libraries/0/provides", "gemini"), WEFT_INVALID_ARGUMENT, "\"provides\"");
  EXPECT_ERROR(parse_with("/libraries/0/sha256", "E3"), WEFT_INVALID_ARGUMENT,
               "64 lower-case hexadecimal digits");
  EXPECT_ERROR(parse_with("/options/0/default", "x"), WEFT_INVALID_ARGUMENT, "MANIFEST: plugin.json",
               "depth is \"x\"");
}

TEST(Manifest, OfTierStableSaysTheOldestLibtorch) {
  json stable = good_manifest();
  json& library = stable["libraries"][0];
  library["tier"] = "stable";
  library.erase("torch_tag");
  EXPECT_ERROR(parse(stable), WEFT_INVALID_ARGUMENT, "has no \"torch_min\"");
  library["torch_min"] = "2.10";
  EXPECT_ERROR(parse(stable), WEFT_INVALID_ARGUMENT, "\"torch_min\" as \"2.10\"", "like 2.10.0");
  library["torch_min"] = "2.10.0";
  const Manifest manifest = parse(stable);
  EXPECT_EQ(manifest.libraries[0].torch_min, "2.10.0");
  EXPECT_EQ(manifest.libraries[0].torch_tag, "");
}

TEST(Manifest, RefusesATierThatDoesNotFitTheKind) {
  const auto of = [](const char* kind, const char* tier) {
    json manifest = good_manifest();
    json& library = manifest["libraries"][0];
    library["kind"] = kind;
    library["tier"] = tier;
    library["build_id"] = "build";
    library["torch_min"] = "2.10.0";
    return manifest;
  };
  for (const char* kind : {"model", "device", "data", "objective"})
    EXPECT_ERROR(parse(of(kind, "torch")), WEFT_INVALID_ARGUMENT, kind, "must be of tier native");
  EXPECT_ERROR(parse(of("operation", "c")), WEFT_INVALID_ARGUMENT, "must be of tier native or stable");
  EXPECT_ERROR(parse(of("shard_policy", "stable")), WEFT_INVALID_ARGUMENT, "c, torch or native");
  EXPECT_NO_THROW(parse(of("operation", "stable")));
  EXPECT_NO_THROW(parse(of("model", "native")));
  EXPECT_NO_THROW(parse(of("strategy", "c")));
}

TEST(Manifest, RefusesAFileOutsideItsFolder) {
  for (const char* file : {"/usr/lib/libc.so", "../x.so", "a/b.so", "", ".x.so"}) {
    EXPECT_ERROR(parse_with("/libraries/0/file", file), WEFT_INVALID_ARGUMENT, "plain name");
  }
}

TEST(Manifest, RefusesWhatIsNoJsonAndWhatIsTooLong) {
  EXPECT_ERROR(parse_manifest("{\"id\":", "plugin.json"), WEFT_INVALID_ARGUMENT,
               "MANIFEST: plugin.json: not valid JSON");
  EXPECT_ERROR(parse_manifest("[]", "plugin.json"), WEFT_INVALID_ARGUMENT, "plugin.json is", "array");
  const testing::TemporaryFolder folder;
  EXPECT_ERROR(read_manifest(folder.path() / "plugin.json"), WEFT_NOT_FOUND, "MANIFEST: cannot open");
  const auto path = folder.write("plugin.json", std::string(kLargestManifest + 1, ' '));
  EXPECT_ERROR(read_manifest(path), WEFT_INVALID_ARGUMENT, "MANIFEST", "has 1048577 bytes, more than");
}

TEST(Manifest, WarnsOfUnknownKeys) {
  json object = good_manifest();
  object["licence"] = "MIT";
  object["libraries"][0]["arch"] = "x86-64";
  const Manifest manifest = parse(object);
  ASSERT_EQ(manifest.warnings.size(), 2u);
  EXPECT_NE(manifest.warnings[1].find("\"licence\"; did you mean \"license\"?"), std::string::npos);
}

TEST(Manifest, IsReadWhole) {
  const Manifest manifest = parse(good_manifest());
  EXPECT_EQ(manifest.id, "gemini");
  EXPECT_TRUE(manifest.is_default);
  EXPECT_EQ(manifest.abi.minor, 1u);
  ASSERT_EQ(manifest.libraries.size(), 1u);
  EXPECT_EQ(manifest.libraries[0].tier, uint32_t{WEFT_TIER_TORCH});
  EXPECT_EQ(manifest.libraries[0].provides, std::vector<std::string>{"gemini"});
  EXPECT_EQ(manifest.options.names(), std::vector<std::string>{"depth"});
  EXPECT_TRUE(manifest.warnings.empty());
}

TEST(SemanticVersion, OrdersByNumbersThenPreRelease) {
  const std::vector<std::string> ordered = {
      "0.9.0",        "0.10.0",        "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta",
      "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",  "1.0.0",         "1.0.1"};
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t j = 0; j < ordered.size(); ++j) {
      EXPECT_EQ(compare_versions(ordered[i], ordered[j]), i <=> j) << ordered[i] << " " << ordered[j];
    }
  }
  EXPECT_EQ(compare_versions("1.0.0+a", "1.0.0+b"), std::strong_ordering::equal);
}

TEST(SemanticVersion, KnowsWhatIsNone) {
  for (const char* bad : {"", "1", "1.2", "1.2.3.4", "1.2.x", "v1.2.3", "1..3", "-1.2.3", "1.2.3-", "1.-2.3",
                          "99999999999999999999.0.0"}) {
    EXPECT_FALSE(is_version(bad)) << bad;
  }
  EXPECT_TRUE(is_version("1.2.3-rc.1+x"));
}

}  // namespace
}  // namespace weft::host
