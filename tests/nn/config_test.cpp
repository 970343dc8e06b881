#include "weft/config.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft {
namespace {

Config example() {
  return Config::parse(
      R"({"n_embd": 384, "layer_norm_epsilon": 1e-05, "tie": true, "activation_function": "gelu_new",
      "architectures": ["GPT2LMHeadModel"], "id2label": {"0": "a", "1": "b"}, "n_inner": null,
      "huge": 18446744073709551615, "mixed": ["a", 1]})",
      "model/config.json");
}

TEST(Config, RefusesWhatIsNoJsonObject) {
  EXPECT_ERROR(Config::parse("[1, 2]", "model/config.json"), WEFT_INVALID_ARGUMENT, "model/config.json",
               "an array");
  EXPECT_ERROR(Config::parse("{\"a\": ", "model/config.json"), WEFT_INVALID_ARGUMENT, "model/config.json");
  EXPECT_ERROR(Config::parse("", "model/config.json"), WEFT_INVALID_ARGUMENT, "model/config.json");
}

TEST(Config, NamesAMissingKeyAndTheNearestOne) {
  EXPECT_ERROR(example().integer("n_embed"), WEFT_NOT_FOUND, "model/config.json", "n_embed",
               "did you mean \"n_embd\"");
}

TEST(Config, NamesKeyFoundAndWantedForAnotherType) {
  EXPECT_ERROR(example().integer("activation_function"), WEFT_INVALID_ARGUMENT, "model/config.json",
               "activation_function", "gelu_new", "an integer");
  EXPECT_ERROR(example().integer("layer_norm_epsilon", 1), WEFT_INVALID_ARGUMENT, "1e-05", "an integer");
  EXPECT_ERROR(example().integer("huge"), WEFT_INVALID_ARGUMENT, "18446744073709551615", "64 bits");
  EXPECT_ERROR(example().real("activation_function", 0), WEFT_INVALID_ARGUMENT, "a number");
  EXPECT_ERROR(example().flag("n_embd", false), WEFT_INVALID_ARGUMENT, "384", "or false");
  EXPECT_ERROR(example().text("n_embd", ""), WEFT_INVALID_ARGUMENT, "a text");
  EXPECT_ERROR(example().texts("mixed"), WEFT_INVALID_ARGUMENT, "mixed", "of texts");
  EXPECT_ERROR(example().entries("n_embd"), WEFT_INVALID_ARGUMENT, "n_embd", "an object", "an array");
}

TEST(Config, ReadsValuesByKey) {
  const Config config = example();
  EXPECT_EQ(config.integer("n_embd"), 384);
  EXPECT_EQ(config.integer("n_head", 6), 6);
  EXPECT_DOUBLE_EQ(config.real("layer_norm_epsilon", 0), 1e-5);
  EXPECT_DOUBLE_EQ(config.real("n_embd", 0), 384);
  EXPECT_TRUE(config.flag("tie", false));
  EXPECT_EQ(config.text("activation_function", ""), "gelu_new");
  EXPECT_EQ(config.texts("architectures"), std::vector<std::string>{"GPT2LMHeadModel"});
  EXPECT_EQ(config.texts("absent"), std::vector<std::string>{});
  EXPECT_EQ(config.entries("id2label"), 2);
  EXPECT_EQ(config.entries("absent"), 0);
  EXPECT_EQ(config.json("architectures"), "[\"GPT2LMHeadModel\"]");
  EXPECT_EQ(config.json("absent"), "");
  EXPECT_EQ(Config::parse(R"({"pad_token_id": null})", "config.json").json("pad_token_id"), "null");
}

TEST(Config, NamesTheClassWithAHeadWhereCodeOfTheFolderHasOne) {
  const auto architecture = [](const std::string& json) {
    return Config::parse(json, "config.json").architecture();
  };
  const std::string map = R"("auto_map": {"AutoModel": "modeling_x.XForConditionalGeneration"})";
  EXPECT_EQ(architecture(R"({"architectures": ["XModel"], )" + map + "}"), "XForConditionalGeneration");
  EXPECT_EQ(architecture("{" + map + "}"), "XForConditionalGeneration");
  EXPECT_EQ(architecture(R"({"architectures": ["YForCausalLM"], )" + map + "}"), "YForCausalLM");
  EXPECT_EQ(architecture(R"({"architectures": ["XModel"], "auto_map": {"AutoModel": "modeling_x.XBase"}})"),
            "XModel");
  EXPECT_EQ(architecture(R"({"architectures": ["XModel"], "auto_map": {"AutoConfig": "x.XForConfig"}})"),
            "XModel");
  EXPECT_EQ(architecture(R"({"architectures": ["XModel"], "auto_map": 3})"), "XModel");
  EXPECT_ERROR(architecture("{}"), WEFT_NOT_FOUND, "architectures");
}

TEST(Config, TreatsNullAsAbsent) {
  EXPECT_FALSE(example().has("n_inner"));
  EXPECT_EQ(example().integer("n_inner", 7), 7);
  EXPECT_ERROR(example().integer("n_inner"), WEFT_NOT_FOUND, "n_inner");
  EXPECT_FALSE(Config().has("n_inner"));
}

TEST(Config, AsksForAnArchitectureWhenItNamesNone) {
  EXPECT_ERROR(Config::parse("{}", "c.json").architecture(), WEFT_NOT_FOUND, "c.json", "--architecture");
  EXPECT_ERROR(Config::parse("{\"architectures\": []}", "c.json").architecture(), WEFT_NOT_FOUND,
               "--architecture");
  EXPECT_EQ(example().architecture(), "GPT2LMHeadModel");
}

TEST(Config, ChangesOneKeyInACopy) {
  const Config before = example();
  const Config after =
      before.with("activation_function", "a \"quoted\" text").with_json("architectures", "[\"Other\"]");
  EXPECT_EQ(after.text("activation_function", ""), "a \"quoted\" text");
  EXPECT_EQ(after.architecture(), "Other");
  EXPECT_EQ(after.integer("n_embd"), 384);
  EXPECT_EQ(before.architecture(), "GPT2LMHeadModel");
  EXPECT_ERROR(before.with_json("architectures", "[oops"), WEFT_INVALID_ARGUMENT, "architectures");
}

TEST(Config, WritesJsonAsHuggingFaceDoes) {
  const Config config = Config::parse("{\"b\": [1, 2], \"a\": 1e-05, \"c\": \"\xc3\xa9\"}", "c.json");
  EXPECT_EQ(config.dump(), "{\n  \"a\": 1e-05,\n  \"b\": [\n    1,\n    2\n  ],\n  \"c\": \"\\u00e9\"\n}\n");
  EXPECT_EQ(Config::parse(config.dump(), "again").text("c", ""), "\xc3\xa9");
}

TEST(Config, LoadsAFileOrTheOneInAFolder) {
  const test::TemporaryFolder folder;
  EXPECT_ERROR(Config::load(folder.path()), WEFT_NOT_FOUND, folder.path(), "no config.json");
  EXPECT_ERROR(Config::load(folder.path() + "/absent.json"), WEFT_NOT_FOUND, "absent.json");
  const std::string path = folder.file("config.json", "{\"n_embd\": 8}");
  EXPECT_EQ(Config::load(folder.path()).integer("n_embd"), 8);
  EXPECT_EQ(Config::load(path).integer("n_embd"), 8);
  EXPECT_EQ(Config::load(folder.path()).origin(), path);
}

}  // namespace
}  // namespace weft
