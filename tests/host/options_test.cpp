#include "base/options.hpp"

#include <limits>

#include "base/json.hpp"
#include "base/text.hpp"
#include "host/expect_error.hpp"

namespace weft {
namespace {

using nlohmann::json;

OptionTable make_table() {
  return OptionTable(json::parse(R"([
    {"name": "bucket_cap_mb", "type": "int", "default": 25, "min": 1, "max": 1024, "doc": "size of a bucket"},
    {"name": "static_graph", "type": "bool", "default": false},
    {"name": "placement", "type": "text", "default": "auto", "choices": ["auto", "static", "cpu"]},
    {"name": "max_norm", "type": "float", "default": null, "min": 0},
    {"name": "betas", "type": "json", "default": [0.9, 0.999]},
    {"name": "tp_size", "type": "int", "doc": "ranks of the tensor axis"}])"),
                     "plugin.json");
}

Options check(const char* given) {
  return Options(make_table(), json::parse(given), "strategy x");
}

TEST(Options, RefuseAnUnknownNameWithTheNearest) {
  EXPECT_ERROR(check(R"({"tp_size": 1, "bucket_cap": 2})"), WEFT_INVALID_ARGUMENT, "strategy x",
               "is called \"bucket_cap\"", "did you mean \"bucket_cap_mb\"?");
  EXPECT_ERROR(check(R"({"tp_size": 1, "zzz": 2})"), WEFT_INVALID_ARGUMENT, "is called \"zzz\"",
               "Options: bucket_cap_mb, static_graph");
}

TEST(Options, RefuseAWrongTypeWithGotAndWanted) {
  EXPECT_ERROR(check(R"({"tp_size": 1.5})"), WEFT_INVALID_ARGUMENT, "tp_size is 1.5", "integer");
  EXPECT_ERROR(check(R"({"tp_size": "1"})"), WEFT_INVALID_ARGUMENT, "tp_size is \"1\"");
  EXPECT_ERROR(check(R"({"tp_size": 18446744073709551615})"), WEFT_INVALID_ARGUMENT,
               "tp_size is 18446744073709551615");
  EXPECT_ERROR(check(R"({"tp_size": null})"), WEFT_INVALID_ARGUMENT, "tp_size is null");
  EXPECT_ERROR(check(R"({"tp_size": 1, "static_graph": 1})"), WEFT_INVALID_ARGUMENT, "or false");
  EXPECT_ERROR(check(R"({"tp_size": 1, "betas": 3})"), WEFT_INVALID_ARGUMENT, "betas is 3");
  EXPECT_ERROR(check("[]"), WEFT_INVALID_ARGUMENT, "an array", "an object");
}

TEST(Options, TakeInfinityWhereTheTableSaysSo) {
  const OptionTable table(
      json::parse(R"([{"name": "norm_type", "type": "float", "default": 2, "infinity": true}])"),
      "plugin.json");
  EXPECT_ERROR(Options(table, json::parse(R"({"norm_type": "nan"})"), "x"), WEFT_INVALID_ARGUMENT, "or inf");
  EXPECT_ERROR(check(R"({"tp_size": 1, "max_norm": "inf"})"), WEFT_INVALID_ARGUMENT, "max_norm is \"inf\"");
  const Options options(table, parse_assignments(table, {"norm_type=inf"}, "x"), "x");
  EXPECT_EQ(options.at("norm_type").real, std::numeric_limits<double>::infinity());
  EXPECT_EQ(options.to_json().dump(), R"({"norm_type":"inf"})");
}

TEST(Options, RefuseAValueOutOfRange) {
  EXPECT_ERROR(check(R"({"tp_size": 1, "bucket_cap_mb": 0})"), WEFT_INVALID_ARGUMENT, "bucket_cap_mb is 0",
               "from 1 to 1024");
  EXPECT_ERROR(check(R"({"tp_size": 1, "max_norm": -1})"), WEFT_INVALID_ARGUMENT, "a number", "at least 0");
  EXPECT_ERROR(check(R"({"tp_size": 1, "placement": "atuo"})"), WEFT_INVALID_ARGUMENT, "auto, static, cpu",
               "did you mean \"auto\"?");
}

TEST(Options, RefuseToLeaveOutWhatHasNoDefault) {
  EXPECT_ERROR(check("{}"), WEFT_INVALID_ARGUMENT, "option tp_size", "tensor axis");
}

TEST(Options, AreCompleteAndTyped) {
  const Options options = check(R"({"tp_size": 2, "max_norm": 3, "placement": "cpu"})");
  EXPECT_EQ(options.size(), 6u);
  EXPECT_EQ(options.at("bucket_cap_mb").integer, 25);
  EXPECT_EQ(options.at("tp_size").integer, 2);
  EXPECT_EQ(options.at("max_norm").kind, uint32_t{WEFT_KIND_FLOAT});
  EXPECT_EQ(options.at("max_norm").real, 3.0);
  EXPECT_EQ(options.at("placement").text, "cpu");
  EXPECT_EQ(options.at("betas").text, "[0.9,0.999]");
  EXPECT_EQ(check(R"({"tp_size": 2})").at("max_norm").kind, uint32_t{WEFT_KIND_NONE});
  EXPECT_EQ(options.to_json()["betas"][1], 0.999);
}

TEST(Options, ViewStaysValidWhenTheyAreMoved) {
  Options options = check(R"({"tp_size": 2})");
  const Options moved = std::move(options);
  std::vector<std::string> seen;
  for (uint64_t i = 0; i < moved.size(); ++i) seen.emplace_back(view(moved.data()[i].key));
  EXPECT_EQ(seen, make_table().names());
  EXPECT_EQ(view(moved.data()[2].text), "auto");
}

TEST(Assignments, RefuseWhatHasNoKeyOrIsGivenTwice) {
  const OptionTable table = make_table();
  EXPECT_ERROR(parse_assignments(table, {"tp_size"}, "x"), WEFT_INVALID_ARGUMENT, "\"tp_size\"",
               "form key=value");
  EXPECT_ERROR(parse_assignments(table, {"=1"}, "x"), WEFT_INVALID_ARGUMENT, "key=value");
  EXPECT_ERROR(parse_assignments(table, {"tp_size=1", "tp_size=2"}, "x"), WEFT_INVALID_ARGUMENT, "tp_size",
               "given twice");
  EXPECT_ERROR(parse_assignments(table, {"tp_sise=1"}, "x"), WEFT_INVALID_ARGUMENT,
               "did you mean \"tp_size\"?");
  EXPECT_ERROR(parse_assignments(table, {"tp_size=1k"}, "x"), WEFT_INVALID_ARGUMENT, "tp_size is \"1k\"",
               "integer");
  EXPECT_ERROR(parse_assignments(table, {"max_norm=nan"}, "x"), WEFT_INVALID_ARGUMENT, "max_norm",
               "a number");
  EXPECT_ERROR(parse_assignments(table, {"bucket_cap_mb=0"}, "x"), WEFT_INVALID_ARGUMENT, "from 1 to 1024");
}

TEST(Assignments, AreReadByTheTypesOfTheTable) {
  const json object = parse_assignments(
      make_table(), {"tp_size=2", "static_graph=true", "placement=cpu", "max_norm=none", "betas=[0.5, 1]"},
      "x");
  EXPECT_EQ(object, json::parse(R"({"tp_size": 2, "static_graph": true, "placement": "cpu", "max_norm": null,
                                    "betas": [0.5, 1]})"));
  EXPECT_EQ(parse_assignments(make_table(), {"max_norm=1e-3"}, "x")["max_norm"], 1e-3);
}

TEST(OptionTable, RefusesAMalformedManifest) {
  const auto make = [](const char* text) { return OptionTable(json::parse(text), "plugin.json"); };
  EXPECT_ERROR(make("{}"), WEFT_INVALID_ARGUMENT, "plugin.json", "an array");
  EXPECT_ERROR(make("[1]"), WEFT_INVALID_ARGUMENT, "an object");
  EXPECT_ERROR(make(R"([{"type": "int"}])"), WEFT_INVALID_ARGUMENT, "no \"name\"");
  EXPECT_ERROR(make(R"([{"name": "a", "type": "integer"}])"), WEFT_INVALID_ARGUMENT, "\"integer\"",
               "bool, int, float");
  EXPECT_ERROR(make(R"([{"name": "a", "type": "int", "default": "x"}])"), WEFT_INVALID_ARGUMENT,
               "the default: a is \"x\"");
  EXPECT_ERROR(make(R"([{"name": "a", "type": "int", "defalt": 1}])"), WEFT_INVALID_ARGUMENT,
               "did you mean \"default\"?");
  EXPECT_ERROR(make(R"([{"name": "a", "type": "text", "min": 1}])"), WEFT_INVALID_ARGUMENT, "\"min\"",
               "option a");
  EXPECT_ERROR(make(R"([{"name": "a", "type": "int"}, {"name": "a", "type": "int"}])"), WEFT_INVALID_ARGUMENT,
               "twice");
  EXPECT_ERROR(make(R"([{"name": "a", "type": "int", "choices": ["x"]}])"), WEFT_INVALID_ARGUMENT,
               "its choices");
  EXPECT_ERROR(make(R"([{"name": "a b", "type": "int"}])"), WEFT_INVALID_ARGUMENT, "cannot be", "the name");
}

}  // namespace
}  // namespace weft
