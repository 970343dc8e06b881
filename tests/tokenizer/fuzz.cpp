#include "tokenizer/fuzz.hpp"

#include <weft/error.hpp>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <vector>

#include "tokenizer/byte_level.hpp"
#include "tokenizer/utf8.hpp"
#include "weft/token_spans.hpp"
#include "weft/tokenizer.hpp"

namespace weft::test {

namespace {

using Json = nlohmann::json;

class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(engine_); }

  std::string text() {
    static const std::vector<std::string> pieces = {
        " ",   "  ",      "a",        "ab",          "'s",
        "é",   "e\u0301", "漢",       "한",          "\U0001F469\u200D\U0001F467",
        "<s>", "[SEP]",   "\n",       "▁",           "1",
        ".",   "\xC3",    "\xF0\x9F", "\xED\xA0\x80"};
    std::string all;
    for (size_t i = below(30); i > 0; --i)
      if (below(4) == 0)
        all += static_cast<char>(below(256));
      else
        all += pieces[below(pieces.size())];
    if (below(50) == 0) all += std::string(below(5000), " ab"[below(3)]);
    return all;
  }

 private:
  std::mt19937_64 engine_;
};

// Returns a file in which every kind of part stands, of several models.
Json whole_file(Draw& draw) {
  Json vocabulary = Json::object();
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string spelling;
    tokenizer::append_code_point(spelling, tokenizer::characters_of_bytes()[byte]);
    vocabulary[spelling] = byte;
  }
  vocabulary["ab"] = 256;
  vocabulary["Ġab"] = 257;
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  Json file = {
      {"added_tokens", {{{"content", "<s>"}, {"special", true}}, {{"content", "[SEP]"}, {"lstrip", true}}}},
      {"pre_tokenizer", byte_level},
      {"post_processor", {{"type", "BertProcessing"}, {"sep", {"a", 64}}, {"cls", {"b", 65}}}},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"a b", "Ġ ab"}}}}};
  const size_t kind = draw.below(4);
  if (kind == 0) return file;
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "NFKC"}},
                          {{"type", "Lowercase"}},
                          {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}},
                          {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "▁"}}}}};
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "Split"},
         {"pattern", {{"Regex", "\\p{L}+|\\s+(?!\\S)|[^a-c]{1,3}"}}},
         {"behavior", "MergedWithNext"},
         {"invert", false}},
        {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", true}}}}};
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "ByteFallback"}},
                       {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}}}}};
  if (kind == 2)
    file["model"] = {{"type", "WordPiece"},
                     {"vocab", vocabulary},
                     {"unk_token", "a"},
                     {"continuing_subword_prefix", "a"},
                     {"max_input_chars_per_word", 20}};
  if (kind == 3)
    file["model"] = {{"type", "Unigram"},
                     {"unk_id", 0},
                     {"byte_fallback", false},
                     {"vocab", {{"<unk>", 0.0}, {"a", -1.5}, {"ab", -2.0}, {"▁", -1.0}, {"▁ab", -3.0}}}};
  return file;
}

// Changes one value somewhere.
void damage(Json& value, Draw& draw) {
  if (value.is_structured() && !value.empty() && draw.below(8) > 0) {
    auto item = value.begin();
    std::advance(item, static_cast<std::ptrdiff_t>(draw.below(value.size())));
    damage(*item, draw);
    return;
  }
  static const std::vector<Json> values = {nullptr,
                                           true,
                                           -1,
                                           0,
                                           3000000000,
                                           1.5,
                                           "",
                                           "a",
                                           "▁",
                                           "BPE",
                                           "Sequence",
                                           "(a|b)*+[^\\s]{2,}?(?=c)",
                                           "[",
                                           "\\p{Lu}",
                                           Json::array(),
                                           Json::object(),
                                           {{"type", "Fuse"}},
                                           {"a", 1}};
  value = values[draw.below(values.size())];
}

// Returns whether the spans of the tokens are in the text, one behind the other.
bool are_in_order(const std::vector<TokenSpan>& spans, const std::string& text) {
  size_t begin = 0;
  for (const TokenSpan& span : spans) {
    if (span.begin < begin || span.end < span.begin || span.end > text.size()) return false;
    begin = span.begin;
  }
  return true;
}

void check_texts(const Tokenizer& tokenizer, Draw& draw, bool is_whole, FuzzResult& result) {
  const TokenSpans spans(tokenizer);
  for (int i = 0; i < 20 && result.failure.empty(); ++i) {
    const std::string text = draw.text();
    const std::vector<int64_t> ids = tokenizer.encode(text, false);
    const std::string back = tokenizer.decode(ids, false);
    Tokenizer::StreamDecoder stream(tokenizer, false);
    std::string streamed;
    for (const int64_t id : ids) streamed += stream.add(id);
    streamed += stream.end();
    ++result.texts;
    const TokenSpans::Encoded encoded = spans.encode(text);
    if (encoded.ids != ids || encoded.spans.size() != ids.size() || !are_in_order(encoded.spans, text))
      result.failure = "the spans of \"" + text + "\"";
    const bool is_plain = is_whole && tokenizer::is_utf8(text) && text.find("[SEP]") == std::string::npos;
    if (is_plain && back != text) result.failure = "\"" + text + "\" came back as \"" + back + "\"";
    if (is_whole && streamed != back)
      result.failure = "\"" + back + "\" was streamed as \"" + streamed + "\"";
    if (!tokenizer::is_utf8(back)) result.failure = "the text of \"" + text + "\" is not UTF-8";
  }
}

}  // namespace

FuzzResult fuzz_tokenizers(std::chrono::milliseconds time, uint64_t seed, const std::string& folder) {
  Draw draw(seed);
  FuzzResult result;
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end && result.failure.empty()) {
    Json file = whole_file(draw);
    const bool is_byte_level = file["decoder"]["type"] == "ByteLevel";
    const size_t changes = draw.below(4);
    for (size_t i = 0; i < changes; ++i) damage(file, draw);
    std::string bytes = file.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (draw.below(10) == 0) bytes[draw.below(bytes.size())] = static_cast<char>(draw.below(256));
    const bool is_whole = changes == 0 && is_byte_level && bytes == file.dump();
    std::ofstream(folder + "/tokenizer.json", std::ios::binary) << bytes;
    try {
      const Tokenizer tokenizer = Tokenizer::open(folder);
      ++result.opened;
      check_texts(tokenizer, draw, is_whole, result);
    } catch (const Error& error) {
      ++result.refused;
      // A text that a damaged vocabulary cannot spell is refused as an argument.
      const bool is_text = error.status() == WEFT_INVALID_ARGUMENT &&
                           std::string_view(error.what()).find("no token spells") != std::string_view::npos;
      const bool is_known = error.status() == WEFT_DATA_LOSS || error.status() == WEFT_UNIMPLEMENTED ||
                            error.status() == WEFT_RESOURCE_EXHAUSTED;
      if (!is_known && !is_text) result.failure = std::string("the status of: ") + error.what();
    } catch (const std::exception& exception) {
      result.failure = std::string("an exception that is no Error: ") + exception.what() + ": " + bytes;
    }
  }
  return result;
}

}  // namespace weft::test
