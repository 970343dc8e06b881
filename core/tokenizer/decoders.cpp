#include <algorithm>

#include "base/search.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/interfaces.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/metaspace.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/sentence_piece.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

using Tokens = std::vector<std::string>;

class ByteLevelDecoder : public Decoder {
 public:
  using Decoder::Decoder;
  void decode(Tokens& tokens, Limits&) const override {
    std::string bytes;
    for (const std::string& token : tokens) append_bytes_of_spelling(bytes, token);
    tokens = {repaired_utf8(bytes)};
  }
};

// Joins runs of "<0xE2>" to characters, or makes each of a run that is not UTF-8 one U+FFFD.
class ByteFallback : public Decoder {
 public:
  using Decoder::Decoder;
  void decode(Tokens& tokens, Limits&) const override {
    Tokens out;
    std::string run;
    for (std::string& token : tokens) {
      if (const std::optional<char> byte = byte_in(token)) {
        run += *byte;
        continue;
      }
      flush(run, out);
      out.push_back(std::move(token));
    }
    flush(run, out);
    tokens = std::move(out);
  }

 private:
  static std::optional<char> byte_in(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    int value = 0;
    for (const char digit : {token[3], token[4]}) {
      const char low = static_cast<char>(digit | 0x20);
      if (digit >= '0' && digit <= '9')
        value = value * 16 + digit - '0';
      else if (low >= 'a' && low <= 'f')
        value = value * 16 + low - 'a' + 10;
      else
        return std::nullopt;
    }
    return static_cast<char>(value);
  }
  static void flush(std::string& run, Tokens& out) {
    if (run.empty()) return;
    if (is_utf8(run))
      out.push_back(run);
    else
      out.insert(out.end(), run.size(), "\xEF\xBF\xBD");
    run.clear();
  }
};

class Fuse : public Decoder {
 public:
  using Decoder::Decoder;
  void decode(Tokens& tokens, Limits&) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens = {std::move(all)};
  }
};

class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(const JsonPart& part) : Decoder(part.rule()), metaspace_(part) {}
  void decode(Tokens& tokens, Limits&) const override {
    const std::string& mark = metaspace_.replacement;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool drops = i == 0 && metaspace_.scheme != "never";
      std::string text;
      size_t at = 0;
      for (size_t found = tokens[i].find(mark); found != std::string::npos;
           found = tokens[i].find(mark, at)) {
        text.append(tokens[i], at, found - at);
        if (!drops) text += ' ';
        at = found + mark.size();
      }
      tokens[i] = text.append(tokens[i], at);
    }
  }

 private:
  const Metaspace metaspace_;
};

class ReplaceDecoder : public Decoder {
 public:
  explicit ReplaceDecoder(const JsonPart& part)
      : Decoder(part.rule()), pattern_(part), content_(part.text("content")) {}
  void decode(Tokens& tokens, Limits& limits) const override {
    size_t bytes = 0;  // of the tokens so far
    for (std::string& token : tokens) {
      std::string text;
      size_t last = 0;
      work(limits).step(1 + token.size());
      pattern_.each(token, limits, [&](size_t begin, size_t end) {
        text.append(token, last, begin - last) += content_;
        work(limits).require_room(bytes + text.size());
        last = end;
      });
      token = text.append(token, last);
      bytes += token.size();
    }
    work(limits).require_room(bytes);
  }

 private:
  const Pattern pattern_;
  const std::string content_;
};

// Takes up to `start` times the content from the begin of each token and up to `stop` times from its end.
class StripDecoder : public Decoder {
 public:
  explicit StripDecoder(const JsonPart& part)
      : Decoder(part.rule()),
        content_(part.text("content")),
        start_(part.integer("start", 0)),
        stop_(part.integer("stop", 0)) {
    if (content_.empty()) part.wrong("content", "one character");
  }
  void decode(Tokens& tokens, Limits&) const override {
    for (std::string& token : tokens) {
      std::string_view text = token;
      for (int64_t i = 0; i < start_ && text.starts_with(content_); ++i) text.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && text.ends_with(content_); ++i) text.remove_suffix(content_.size());
      token = std::string(text);
    }
  }

 private:
  const std::string content_;
  const int64_t start_, stop_;
};

// The suffix of the last piece of a word becomes a space, and nothing at the end.
class SuffixDecoder : public Decoder {
 public:
  explicit SuffixDecoder(const JsonPart& part) : Decoder(part.rule()), suffix_(part.text("suffix", "</w>")) {}
  void decode(Tokens& tokens, Limits&) const override {
    if (suffix_.empty()) return;
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }

 private:
  const std::string suffix_;
};

class Sequence : public Decoder {
 public:
  explicit Sequence(const JsonPart& part) : Decoder(part.rule()) {
    for (const Json& item : part.list("decoders"))
      if (auto made = make_decoder(item, part.source())) items_.push_back(std::move(made));
  }
  void decode(Tokens& tokens, Limits& limits) const override {
    for (const auto& item : items_) {
      item->decode(tokens, limits);
      work(limits).step(tokens.size());
    }
  }

 private:
  std::vector<std::unique_ptr<Decoder>> items_;
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Json& json, const std::string& source) {
  if (json.is_null()) return nullptr;
  const JsonPart part(json, "\"decoder\"", source);
  const std::string& type = part.type();
  if (type == "Sequence") return std::make_unique<Sequence>(part);
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>(part.rule());
  if (type == "ByteFallback") return std::make_unique<ByteFallback>(part.rule());
  if (type == "Fuse") return std::make_unique<Fuse>(part.rule());
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(part);
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(part);
  if (type == "Strip") return std::make_unique<StripDecoder>(part);
  if (type == "BPEDecoder") return std::make_unique<SuffixDecoder>(part);
  if (type == "WordPiece") return make_word_piece_decoder(json, source);
  if (type == "SentencePiece") return make_sentence_piece_decoder(part);
  part.unknown("type", type);
}

}  // namespace weft::tokenizer
