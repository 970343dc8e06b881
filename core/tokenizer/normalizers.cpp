#include <algorithm>
#include <cstddef>
#include <utility>

#include "tokenizer/byte_level.hpp"
#include "tokenizer/charsmap.hpp"
#include "tokenizer/interfaces.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/normal_forms.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/sentence_piece.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

// A normalizer that is one function of the text and the work.
template <typename Function>
class Simple : public Normalizer {
 public:
  Simple(std::string rule, Function function) : Normalizer(std::move(rule)), function_(std::move(function)) {}
  std::string normalize(std::string text, Limits& limits) const override {
    work(limits).step(text.size());
    std::string made = function_(std::move(text), limits, work(limits));
    work(limits).require_room(made.size());
    return made;
  }

 private:
  const Function function_;
};
template <typename Function>
std::unique_ptr<Normalizer> simple(const JsonPart& part, Function function) {
  return std::make_unique<Simple<Function>>(part.rule(), std::move(function));
}

// Calls write(point, out) for each code point of a text; returns what it appended.
template <typename Write>
std::string rewritten(std::string_view text, Write write) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) write(next_code_point(text, at), out);
  return out;
}

template <typename Is>
std::string without(std::string_view text, Is is) {
  return rewritten(text, [&](char32_t point, std::string& out) {
    if (!is(point)) append_code_point(out, point);
  });
}

std::string stripped(std::string text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    size_t behind = begin;
    if (!is_white_space(next_code_point(text, behind))) break;
    begin = behind;
  }
  while (right && end > begin) {
    size_t before = end;
    if (!is_white_space(previous_code_point(text, before))) break;
    end = before;
  }
  return text.substr(begin, end - begin);
}

std::string replaced(const std::string& text, const Pattern& pattern, const std::string& content,
                     Limits& limits, const Work& work) {
  std::string result;
  size_t rest = 0;
  pattern.each(text, limits, [&](size_t begin, size_t end) {
    result.append(text, rest, begin - rest);
    result += content;
    work.require_room(result.size());
    rest = end;
  });
  return rest == 0 && result.empty() ? text : result.append(text, rest);
}

// Removes controls and turns separators into spaces, as the normalizer of a model of machine translation
// does.
std::string cleaned_for_translation(std::string_view text) {
  const auto is_dropped = [](char32_t point) {
    return (point >= 0x01 && point <= 0x08) || point == 0x0B || (point >= 0x0E && point <= 0x1F) ||
           point == 0x7F || point == 0x8F || point == 0x9F;
  };
  const auto is_space = [](char32_t point) {
    return point == '\t' || point == '\n' || point == '\f' || point == '\r' || point == 0x1680 ||
           (point >= 0x200B && point <= 0x200F) || point == 0x2028 || point == 0x2029 || point == 0x2581 ||
           point == 0xFEFF || point == 0xFFFD;
  };
  return rewritten(text, [&](char32_t point, std::string& out) {
    if (!is_dropped(point)) append_code_point(out, is_space(point) ? U' ' : point);
  });
}

// The normalizer of WordPiece.
class Words : public Normalizer {
 public:
  explicit Words(const JsonPart& part)
      : Normalizer(part.rule()),
        clean_text_(part.flag("clean_text", true)),
        space_chinese_(part.flag("handle_chinese_chars", true)),
        lowercase_(part.flag("lowercase", true)),
        strip_accents_(part.flag("strip_accents", lowercase_)) {}

  std::string normalize(std::string text, Limits& limits) const override {
    work(limits).step(text.size());
    if (clean_text_ || space_chinese_)
      text = rewritten(text, [this](char32_t point, std::string& out) { write(point, out); });
    if (strip_accents_) text = without(normalized(text, NormalForm::kD), is_nonspacing_mark);
    if (lowercase_) text = lower_case(text);
    work(limits).require_room(text.size());
    return text;
  }

 private:
  static bool is_chinese(char32_t point) {
    // Extension E begins at U+2B820; Hugging Face's tokenizers begin at U+2B920.
    return (point >= 0x4E00 && point <= 0x9FFF) || (point >= 0x3400 && point <= 0x4DBF) ||
           (point >= 0x20000 && point <= 0x2A6DF) || (point >= 0x2A700 && point <= 0x2B73F) ||
           (point >= 0x2B740 && point <= 0x2B81F) || (point >= 0x2B920 && point <= 0x2CEAF) ||
           (point >= 0xF900 && point <= 0xFAFF) || (point >= 0x2F800 && point <= 0x2FA1F);
  }
  void write(char32_t point, std::string& out) const {
    if (clean_text_) {
      if (point == '\t' || point == '\n' || point == '\r') point = ' ';
      if (point == 0xFFFD || is_control(point)) return;
      if (is_white_space(point)) point = ' ';
    }
    const bool spaced = space_chinese_ && is_chinese(point);
    if (spaced) out += ' ';
    append_code_point(out, point);
    if (spaced) out += ' ';
  }

  const bool clean_text_, space_chinese_, lowercase_, strip_accents_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(const JsonPart& part) : Normalizer(part.rule()) {
    for (const Json& item : part.list("normalizers"))
      if (auto made = make_normalizer(item, part.source())) items_.push_back(std::move(made));
  }
  std::string normalize(std::string text, Limits& limits) const override {
    for (const auto& item : items_) text = item->normalize(std::move(text), limits);
    return text;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> items_;
};

// Makes a normalizer of a function of the text alone.
template <typename Function>
std::unique_ptr<Normalizer> plain(const JsonPart& part, Function function) {
  return simple(part,
                [function](std::string text, Limits&, const Work&) { return function(std::move(text)); });
}

std::unique_ptr<Normalizer> in_form(const JsonPart& part, NormalForm form) {
  return plain(part, [form](const std::string& text) { return normalized(text, form); });
}

std::unique_ptr<Normalizer> make_precompiled(const JsonPart& part) {
  const std::string bytes = bytes_of_base64(part.text("precompiled_charsmap", ""), part.source());
  return simple(part,
                [map = Charsmap(bytes, part.source())](const std::string& text, Limits&, const Work& work) {
                  return map.apply(text, work);
                });
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Json& json, const std::string& source) {
  if (json.is_null()) return nullptr;
  const JsonPart part(json, "\"normalizer\"", source);
  const std::string& type = part.type();
  if (type == "Sequence") return std::make_unique<Sequence>(part);
  if (type == "BertNormalizer") return std::make_unique<Words>(part);
  if (type == "NFC") return in_form(part, NormalForm::kC);
  if (type == "NFD") return in_form(part, NormalForm::kD);
  if (type == "NFKC") return in_form(part, NormalForm::kKC);
  if (type == "NFKD") return in_form(part, NormalForm::kKD);
  if (type == "Nmt")
    return plain(part, [](const std::string& text) { return cleaned_for_translation(text); });
  if (type == "Lowercase") return plain(part, [](const std::string& text) { return lower_case(text); });
  if (type == "StripAccents")
    return plain(part, [](const std::string& text) { return without(text, is_mark); });
  if (type == "ByteLevel")
    return plain(part, [](const std::string& text) { return spelling_of_bytes(text); });
  if (type == "Precompiled") return make_precompiled(part);
  if (type == "SentencePiece") return make_sentence_piece_normalizer(part);
  if (type == "Strip")
    return plain(part, [left = part.flag("strip_left", true), right = part.flag("strip_right", true)](
                           std::string text) { return stripped(std::move(text), left, right); });
  if (type == "Replace")
    return simple(part, [pattern = Pattern(part), content = part.text("content")](
                            const std::string& text, Limits& limits, const Work& work) {
      return replaced(text, pattern, content, limits, work);
    });
  if (type == "Prepend")
    return plain(part, [front = part.text("prepend")](const std::string& text) {
      return text.empty() ? text : front + text;
    });
  part.unknown("type", type);
}

}  // namespace weft::tokenizer
