#include "evaluation/answer_scores.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft {

namespace {

// As str.split() of Python, in which SQuAD's script is written.
bool is_space(char32_t point) {
  return tokenizer::is_white_space(point) || (point >= 0x1C && point <= 0x1F);
}

// \w of Python's regular expressions, without the underscore, which is punctuation.
bool is_in_word(char32_t point) {
  return tokenizer::is_in(point, tokenizer::kLetters | tokenizer::kNumbers);
}

bool is_ascii_punctuation(char32_t point) {
  return point > ' ' && point < 0x7F && !(point >= '0' && point <= '9') && !(point >= 'a' && point <= 'z') &&
         !(point >= 'A' && point <= 'Z');
}

bool is_article(std::string_view word) {
  return word == "a" || word == "an" || word == "the";
}

// Returns a text in lower case and without punctuation, with a space in place of each article.
std::string without_articles(std::string_view text) {
  const std::string lower = tokenizer::lower_case(text);
  std::string kept, run;  // a run of letters and numbers, which may be an article
  const auto end_run = [&] {
    kept += is_article(run) ? " " : run;
    run.clear();
  };
  for (size_t at = 0; at < lower.size();) {
    char32_t point = tokenizer::next_code_point(lower, at);
    if (is_ascii_punctuation(point)) continue;
    if (point == U'ς') point = U'σ';  // Python's lower() knows where words end
    if (!is_in_word(point)) end_run();
    tokenizer::append_code_point(is_in_word(point) ? run : kept, point);
  }
  end_run();
  return kept;
}

std::vector<std::string> words_of(std::string_view text) {
  const std::string kept = without_articles(text);
  std::vector<std::string> words;
  bool continues = false;
  for (size_t at = 0; at < kept.size();) {
    const size_t begin = at;
    const bool space = is_space(tokenizer::next_code_point(kept, at));
    if (!space && !continues) words.emplace_back();
    if (!space) words.back() += kept.substr(begin, at - begin);
    continues = !space;
  }
  return words;
}

double f1_of(const std::vector<std::string>& found, const std::vector<std::string>& right) {
  if (found.empty() || right.empty()) return found.empty() && right.empty() ? 1 : 0;
  std::map<std::string, int> left;
  for (const std::string& word : right) ++left[word];
  double common = 0;
  for (const std::string& word : found) common += left[word]-- > 0 ? 1 : 0;
  return 2 * common / static_cast<double>(found.size() + right.size());
}

}  // namespace

std::string normal_answer(std::string_view text) {
  return fmt::format("{}", fmt::join(words_of(text), " "));
}

AnswerScore score_answer(std::string_view found, const std::vector<std::string>& right) {
  const std::vector<std::string> words = words_of(found);
  std::vector<std::vector<std::string>> all;
  for (const std::string& text : right)
    if (std::vector<std::string> each = words_of(text); !each.empty()) all.push_back(std::move(each));
  if (all.empty()) all.emplace_back();
  AnswerScore best;
  for (const std::vector<std::string>& each : all) {
    best.exact_match = std::max(best.exact_match, each == words ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1_of(words, each));
  }
  return best;
}

}  // namespace weft
