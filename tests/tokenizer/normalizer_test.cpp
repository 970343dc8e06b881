// The normalizers of tokenizer.json.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <weft/error.hpp>

#include "tokenizer/charsmap.hpp"
#include "tokenizer/interfaces.hpp"

namespace weft::tokenizer {
namespace {

std::string normalize(const std::string& part, const std::string& text) {
  Limits limits(text.size());
  return make_normalizer(Json::parse(part), "tokenizer.json")->normalize(text, limits);
}
weft_status status_of(const std::string& part) {
  try {
    make_normalizer(Json::parse(part), "tokenizer.json");
  } catch (const Error& error) {
    return error.status();
  }
  return WEFT_OK;
}

// A map of "a" to "X", "b" to "YZ" and of "é" to nothing: a double array whose units are placed by hand.
std::string map_of_three() {
  std::vector<uint32_t> units(1024, 0xFF);  // a label that no byte below has
  const auto place = [&](uint32_t parent, uint8_t byte, uint32_t children, bool leaf) {
    const uint32_t at = parent ^ byte;
    units[at] = (children ^ at) << 10 | (leaf ? 1u << 8 : 0) | byte;
    return children;
  };
  const uint32_t root = 256;
  units[0] = root << 10;
  const auto key = [&](const std::string& bytes, uint32_t children, uint32_t value) {
    uint32_t node = root;
    for (size_t i = 0; i < bytes.size(); ++i)
      node = place(node, static_cast<uint8_t>(bytes[i]), children + 16 * static_cast<uint32_t>(i),
                   i + 1 == bytes.size());
    units[node] = 1u << 31 | value;
  };
  key("a", 16, 0);
  key("b", 32, 2);
  key("é", 512, 5);
  std::string bytes;
  const auto put = [&](uint32_t unit) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(unit >> 8 * i & 0xFF);
  };
  put(static_cast<uint32_t>(units.size() * 4));
  for (const uint32_t unit : units) put(unit);
  return bytes + std::string("X\0YZ\0\0", 6);
}

TEST(Normalizer, RefusesWhatItDoesNotHave) {
  EXPECT_EQ(status_of(R"({"type": "Unheard"})"), WEFT_UNIMPLEMENTED);
  EXPECT_EQ(status_of(R"({"type": "Prepend"})"), WEFT_DATA_LOSS);
  EXPECT_EQ(status_of(R"({"type": "Replace", "pattern": {"String": "a"}})"), WEFT_DATA_LOSS);
  EXPECT_EQ(status_of(R"({"type": "Lowercase"})"), WEFT_OK);
  EXPECT_EQ(make_normalizer(Json(), "tokenizer.json"), nullptr);
}

TEST(Normalizer, StripsEndsThatAreWanted) {
  EXPECT_EQ(normalize(R"({"type": "Strip"})", " \u3000a b\n"), "a b");
  EXPECT_EQ(normalize(R"({"type": "Strip", "strip_left": false, "strip_right": true})", " a "), " a");
  EXPECT_EQ(normalize(R"({"type": "Strip", "strip_left": true, "strip_right": false})", "  "), "");
}

TEST(Normalizer, ReplacesTextsAndPatterns) {
  EXPECT_EQ(normalize(R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})", " a  b"),
            "▁a▁▁b");
  EXPECT_EQ(normalize(R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})", "a   b c"),
            "a b c");
  EXPECT_EQ(normalize(R"({"type": "Replace", "pattern": {"String": "a"}, "content": ""})", "aa"), "");
}

TEST(Normalizer, RunsASequenceInOrder) {
  EXPECT_EQ(normalize(R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"},
                          {"type": "Lowercase"}, {"type": "Prepend", "prepend": "▁"}]})",
                      "É"),
            "▁e");
  EXPECT_EQ(normalize(R"({"type": "Prepend", "prepend": "▁"})", ""), "");
}

TEST(Normalizer, SpellsBytes) {
  EXPECT_EQ(normalize(R"({"type": "ByteLevel"})", "a é"), "aĠÃ©");
}

TEST(Normalizer, CleansControlsForTranslation) {
  EXPECT_EQ(normalize(R"({"type": "Nmt"})", "a\u0001\tb\u200Bc\uFFFD"), "a b c ");
}

TEST(Normalizer, DoesWhatTheFlagsOfWordPieceSay) {
  EXPECT_EQ(normalize(R"({"type": "BertNormalizer"})", "É\t\u0001中x"), "e  中 x");
  EXPECT_EQ(normalize(R"({"type": "BertNormalizer", "strip_accents": null, "lowercase": false})", "É"), "É");
  EXPECT_EQ(normalize(R"({"type": "BertNormalizer", "strip_accents": false})", "É"), "é");
  EXPECT_EQ(normalize(R"({"type": "BertNormalizer", "strip_accents": true, "lowercase": false})", "É"), "E");
  EXPECT_EQ(
      normalize(R"({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": false})", "\t中"),
      "\t中");
}

TEST(Charsmap, RefusesDamage) {
  const std::string map = map_of_three();
  EXPECT_THROW(Charsmap(map.substr(0, 3), "tokenizer.json"), Error);
  EXPECT_THROW(Charsmap(map.substr(0, 100), "tokenizer.json"), Error);
  EXPECT_THROW(Charsmap(map + "\xFF", "tokenizer.json"), Error);
  EXPECT_THROW(bytes_of_base64("ab*=", "tokenizer.json"), Error);
  EXPECT_THROW(bytes_of_base64("abc", "tokenizer.json"), Error);
  EXPECT_EQ(bytes_of_base64("YWJjZA==", "tokenizer.json"), "abcd");
}

std::string apply(const Charsmap& map, const std::string& text) {
  Limits limits(text.size());
  return map.apply(text, {limits, "the map"});
}

TEST(Charsmap, ReplacesCharactersAndLeavesOthers) {
  const Charsmap map(map_of_three(), "tokenizer.json");
  EXPECT_EQ(apply(map, "abc é!"), "XYZc !");
  EXPECT_EQ(apply(Charsmap("", "tokenizer.json"), "abc"), "abc");
}

TEST(Charsmap, ReplacesAClusterByTheShortestEntryThatItBeginsWith) {
  const Charsmap map(map_of_three(), "tokenizer.json");
  EXPECT_EQ(apply(map, "a\u0301"), "X");
  EXPECT_EQ(apply(map, "a\u0301\u0301\u0301"), "X\u0301\u0301\u0301");  // too long: one character at a time
}

}  // namespace
}  // namespace weft::tokenizer
