#include "jinja/lexer.hpp"

#include <algorithm>
#include <cctype>

#include "base/text.hpp"
#include "jinja/characters.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::jinja {

namespace {

using Kind = Token::Kind;

constexpr size_t kLongestTemplate = size_t{1} << 20, kLongestName = 200;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool begins_name(char c) {
  return c == '_' || std::isalpha(static_cast<unsigned char>(c)) != 0 ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Returns the source with \n as the only line break, and without the last one.
std::string with_plain_lines(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t tag = next_tag();
      if (tag == std::string::npos) {
        add_text(source_.substr(at_));
        at_ = source_.size();
        break;
      }
      read_tag(tag);
    }
    add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  size_t next_tag() const {
    for (size_t at = source_.find('{', at_); at != std::string::npos; at = source_.find('{', at + 1))
      if (at + 1 < source_.size() && std::string_view("{%#").find(source_[at + 1]) != std::string_view::npos)
        return at;
    return std::string::npos;
  }
  size_t line() {
    const auto end = source_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ +=
        static_cast<size_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(counted_), end, '\n'));
    counted_ = at_;
    return line_;
  }
  [[noreturn]] void refuse(const std::string& problem) {
    fail(WEFT_INVALID_ARGUMENT, "line {}: {}", line(), problem);
  }
  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line()}); }
  void add_text(std::string text) {
    if (!text.empty()) add(Kind::kText, std::move(text));
  }
  bool follows(std::string_view text, size_t at) const {
    return std::string_view(source_).substr(at).starts_with(text);
  }

  // Returns the text up to a tag, without the space that the tag or lstrip_blocks takes away. `sign` is what
  // stands behind the tag's begin.
  std::string text_before(size_t tag, char sign) const {
    std::string text = source_.substr(at_, tag - at_);
    const bool prints = source_[tag + 1] == '{';
    if (sign == '-') {
      while (!text.empty() && is_space(text.back())) text.pop_back();
    } else if (sign != '+' && !prints) {
      const size_t line_begin = text.rfind('\n') + 1;
      if ((line_begin > 0 || at_line_begin_) &&
          std::all_of(text.begin() + static_cast<std::ptrdiff_t>(line_begin), text.end(), is_space))
        text.resize(line_begin);
    }
    return text;
  }
  // Moves behind the end of a tag, `mark` with a sign before it, and the space that it takes away. Returns
  // false if none stands here.
  bool skip_end(std::string_view mark, bool trims) {
    const char sign = source_[at_];
    const size_t begin = at_, signed_by = sign == '-' || (sign == '+' && trims) ? 1 : 0;
    if (!follows(mark, at_ + signed_by)) return false;
    at_ += signed_by + mark.size();
    if (sign == '-')
      while (at_ < source_.size() && is_space(source_[at_])) ++at_;
    else if (trims && signed_by == 0 && at_ < source_.size() && source_[at_] == '\n')
      ++at_;
    at_line_begin_ = at_ > begin && source_[at_ - 1] == '\n';
    return true;
  }

  void read_tag(size_t tag) {
    const char kind = source_[tag + 1], sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool is_signed = sign == '-' || sign == '+';
    add_text(text_before(tag, sign));
    at_ = tag + 2 + (is_signed ? 1 : 0);
    if (kind == '#') return skip_comment();
    if (kind == '%' && read_raw()) return;
    const bool prints = kind == '{';
    add(prints ? Kind::kPrintBegin : Kind::kBlockBegin, "");
    while (true) {
      while (at_ < source_.size() && is_space(source_[at_])) ++at_;
      if (at_ == source_.size()) refuse(prints ? "a {{ has no }}" : "a {% has no %}");
      if (brackets_.empty() && skip_end(prints ? "}}" : "%}", !prints)) break;
      read_token();
    }
    add(prints ? Kind::kPrintEnd : Kind::kBlockEnd, "");
  }

  void skip_comment() {
    for (; at_ < source_.size(); ++at_)
      if (skip_end("#}", true)) return;
    refuse("a {# has no #}");
  }

  // Reads {% raw %} ... {% endraw %}, if that begins here.
  bool read_raw() {
    size_t at = at_;
    const auto skip_space = [&] {
      while (at < source_.size() && is_space(source_[at])) ++at;
    };
    skip_space();
    if (!follows("raw", at)) return false;
    at += 3;
    skip_space();
    const bool strips = follows("-%}", at);
    if (!strips && !follows("%}", at)) return false;
    at += strips ? 3 : 2;
    if (strips) skip_space();
    at_ = at;
    at_line_begin_ = source_[at - 1] == '\n';
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      at = tag + 2;
      const char sign = at < source_.size() ? source_[at] : '\0';
      if (sign == '-' || sign == '+') ++at;
      skip_space();
      if (!follows("endraw", at)) continue;
      at += 6;
      skip_space();
      std::string text = text_before(tag, sign);
      at_ = at;
      if (at_ == source_.size() || !skip_end("%}", true)) break;
      add_text(std::move(text));
      return true;
    }
    refuse("a {% raw %} has no {% endraw %}");
  }

  void read_token() {
    const char c = source_[at_];
    if (c == '"' || c == '\'') return read_string();
    if (is_digit(c)) return read_number();
    if (begins_name(c)) {
      size_t end = at_;
      while (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end]))) ++end;
      if (end - at_ > kLongestName)
        refuse(fmt::format("a name has {} bytes, at most {} are possible", end - at_, kLongestName));
      return take(Kind::kName, end - at_);
    }
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="})
      if (follows(two, at_)) return take(Kind::kSymbol, 2);
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos)
      refuse(fmt::format("\"{}\" is no token of Jinja",
                         printable(source_.substr(at_, next_character(source_, at_) - at_))));
    if (const size_t opened = std::string_view("([{").find(c); opened != std::string_view::npos) {
      brackets_ += ")]}"[opened];
    } else if (std::string_view(")]}").find(c) != std::string_view::npos) {
      if (brackets_.empty() || brackets_.back() != c)
        refuse(brackets_.empty() ? fmt::format("a {} closes nothing", c)
                                 : fmt::format("found {}, but {} is due", c, brackets_.back()));
      brackets_.pop_back();
    }
    take(Kind::kSymbol, 1);
  }
  void take(Kind kind, size_t size) {
    add(kind, source_.substr(at_, size));
    at_ += size;
  }

  void read_number() {
    const auto digits = [&](size_t at) {
      while (at < source_.size() &&
             (is_digit(source_[at]) ||
              (source_[at] == '_' && at + 1 < source_.size() && is_digit(source_[at + 1]))))
        ++at;
      return at;
    };
    size_t end = digits(at_);
    bool real = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = digits(end + 1);
      real = true;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t power = end + 1;
      if (power < source_.size() && (source_[power] == '+' || source_[power] == '-')) ++power;
      if (power < source_.size() && is_digit(source_[power])) {
        end = digits(power);
        real = true;
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    add(real ? Kind::kReal : Kind::kInteger, std::move(text));
    at_ = end;
  }

  void read_string() {
    const char quote = source_[at_];
    std::string text;
    for (size_t i = at_ + 1; i < source_.size(); ++i) {
      if (source_[i] == quote) {
        add(Kind::kString, std::move(text));
        at_ = i + 1;
        return;
      }
      if (source_[i] != '\\')
        text += source_[i];
      else
        i += read_escape(i + 1, text);
    }
    refuse(fmt::format("a {} has no {} that ends the string", quote, quote));
  }
  // Appends what an escape stands for, whose letter is at `at`. Returns how many characters it has.
  size_t read_escape(size_t at, std::string& text) {
    const char letter = at < source_.size() ? source_[at] : '\0';
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kStandFor = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t known = kLetters.find(letter); known != std::string_view::npos) {
      text += kStandFor[known];
      return 1;
    }
    if (letter == '\n') return 1;
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits == 0) {  // Python leaves what it does not know
      text += '\\';
      return 0;
    }
    const std::string number = source_.substr(at + 1, digits);
    if (number.size() < digits || number.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      refuse(fmt::format("the escape \\{} needs {} hexadecimal digits", letter, digits));
    const auto point = static_cast<char32_t>(std::stoul(number, nullptr, 16));
    if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
      refuse(fmt::format("the escape \\{}{} is no character", letter, number));
    tokenizer::append_code_point(text, point);
    return 1 + digits;
  }

  const std::string source_;
  size_t at_ = 0;
  size_t line_ = 1, counted_ = 0;  // the line at the byte counted_
  bool at_line_begin_ = true;
  std::string brackets_;  // the ends of the brackets that are open
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  if (source.size() > kLongestTemplate)
    fail(WEFT_INVALID_ARGUMENT, "the template has {} bytes, at most {} are possible", source.size(),
         kLongestTemplate);
  return Lexer(with_plain_lines(source)).run();
}

}  // namespace weft::jinja
