#include <algorithm>

#include "tokenizer/byte_level.hpp"
#include "tokenizer/metaspace.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/splitting.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

// Cuts at every code point that `is` holds for.
template <typename Is>
void cut_at(std::string_view text, Parts& parts, Is is) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (is(next_code_point(text, at))) add_match(parts, begin, at);
  }
  add_rest(parts, text.size());
}

// Cuts at every code point of a kind.
template <typename Is>
class AtCodePoints : public PreTokenizer {
 public:
  AtCodePoints(std::string rule, Behavior behavior, Is is)
      : PreTokenizer(std::move(rule)), behavior_(behavior), is_(is) {}
  void split(Pieces& pieces, Limits& limits) const override {
    cut_pieces(pieces, behavior_, work(limits),
               [this](std::string_view text, Parts& parts) { cut_at(text, parts, is_); });
  }

 private:
  const Behavior behavior_;
  const Is is_;
};
template <typename Is>
std::unique_ptr<PreTokenizer> at_code_points(const JsonPart& part, Behavior behavior, Is is) {
  return std::make_unique<AtCodePoints<Is>>(part.rule(), behavior, is);
}

class AtPattern : public PreTokenizer {
 public:
  explicit AtPattern(const JsonPart& part)
      : PreTokenizer(part.rule()),
        pattern_(part),
        behavior_(behavior_of(part, Behavior::kIsolated)),
        invert_(part.flag("invert", false)) {
    if (!part.find("behavior")) part.wrong("behavior", "a text");
  }

  void split(Pieces& pieces, Limits& limits) const override {
    cut_pieces(pieces, behavior_, work(limits), [&](std::string_view text, Parts& parts) {
      pattern_.each(text, limits, [&](size_t begin, size_t end) { add_match(parts, begin, end); });
      add_rest(parts, text.size());
      if (invert_)
        for (Part& part : parts) part.matches = !part.matches;
    });
  }

 private:
  const Pattern pattern_;
  const Behavior behavior_;
  const bool invert_;
};

// Keeps words and runs of other characters that are no white space: \w+|[^\w\s]+.
class Words : public PreTokenizer {
 public:
  using PreTokenizer::PreTokenizer;
  void split(Pieces& pieces, Limits& limits) const override {
    cut_pieces(pieces, Behavior::kRemoved, work(limits), [](std::string_view text, Parts& parts) {
      enum class Sort { kSpace, kWord, kOther };
      Sort last = Sort::kSpace;
      size_t begin = 0;
      for (size_t at = 0; at < text.size();) {
        const size_t before = at;
        const char32_t point = next_code_point(text, at);
        const Sort sort = is_word_or_joiner(point) ? Sort::kWord
                          : is_white_space(point)  ? Sort::kSpace
                                                   : Sort::kOther;
        if (sort != last && before > begin) parts.push_back({begin, before, last == Sort::kSpace});
        if (sort != last) begin = before;
        last = sort;
      }
      parts.push_back({begin, text.size(), last == Sort::kSpace});
    });
  }
};

class ByteLevel : public PreTokenizer {
 public:
  explicit ByteLevel(const JsonPart& part)
      : PreTokenizer(part.rule()),
        add_prefix_space_(part.flag("add_prefix_space", true)),
        use_regex_(part.flag("use_regex", true)),
        words_(kByteLevelWords, part.rule()) {}

  void split(Pieces& pieces, Limits& limits) const override {
    if (add_prefix_space_)
      rewrite_pieces(pieces, work(limits), [](const Pieces::Piece&, std::string_view text, std::string& out) {
        if (!text.starts_with(' ')) out += ' ';
        out += text;
      });
    if (use_regex_)
      cut_pieces(pieces, Behavior::kIsolated, work(limits), [&](std::string_view text, Parts& parts) {
        words_.each_match(text, limits, [&](size_t begin, size_t end) { add_match(parts, begin, end); });
        add_rest(parts, text.size());
      });
    rewrite_pieces(pieces, work(limits), [](const Pieces::Piece&, std::string_view text, std::string& out) {
      append_spelling_of_bytes(out, text);
    });
  }

 private:
  const bool add_prefix_space_;
  const bool use_regex_;
  const Regex words_;
};

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(const JsonPart& part) : PreTokenizer(part.rule()), metaspace_(part) {}

  void split(Pieces& pieces, Limits& limits) const override {
    rewrite_pieces(pieces, work(limits),
                   [this](const Pieces::Piece& piece, std::string_view text, std::string& out) {
                     const bool wants = metaspace_.prepends(piece.first);
                     const bool has = text.starts_with(' ') || text.starts_with(metaspace_.replacement);
                     if (wants && !has) out += metaspace_.replacement;
                     for (const char byte : text)
                       if (byte == ' ')
                         out += metaspace_.replacement;
                       else
                         out += byte;
                   });
    if (!metaspace_.split) return;
    cut_pieces(pieces, Behavior::kMergedWithNext, work(limits), [this](std::string_view text, Parts& parts) {
      const std::string& mark = metaspace_.replacement;
      for (size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + mark.size()))
        add_match(parts, at, at + mark.size());
      add_rest(parts, text.size());
    });
  }

 private:
  const Metaspace metaspace_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(const JsonPart& part) : PreTokenizer(part.rule()) {
    for (const Json& item : part.list("pretokenizers"))
      if (auto made = make_pre_tokenizer(item, part.source())) items_.push_back(std::move(made));
  }
  void split(Pieces& pieces, Limits& limits) const override {
    for (const auto& item : items_) item->split(pieces, limits);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> items_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& json, const std::string& source) {
  if (json.is_null()) return nullptr;
  const JsonPart part(json, "\"pre_tokenizer\"", source);
  const std::string& type = part.type();
  if (type == "Sequence") return std::make_unique<Sequence>(part);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(part);
  if (type == "Split") return std::make_unique<AtPattern>(part);
  if (type == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(part);
  if (type == "Whitespace") return std::make_unique<Words>(part.rule());
  if (type == "WhitespaceSplit") return at_code_points(part, Behavior::kRemoved, is_white_space);
  if (type == "Punctuation")
    return at_code_points(part, behavior_of(part, Behavior::kIsolated), is_punctuation);
  if (type == "Digits")
    return at_code_points(
        part, part.flag("individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous, is_number);
  if (type == "CharDelimiterSplit") {
    const std::string delimiter = part.text("delimiter");
    size_t end = 0;
    const char32_t wanted = delimiter.empty() ? 0 : next_code_point(delimiter, end);
    if (delimiter.empty() || end != delimiter.size()) part.wrong("delimiter", "one character");
    return at_code_points(part, Behavior::kRemoved, [wanted](char32_t point) { return point == wanted; });
  }
  if (type == "BertPreTokenizer") return make_bert_pre_tokenizer(json, source);
  part.unknown("type", type);
}

}  // namespace weft::tokenizer
