// How well the text of an answer matches those that count as right, as SQuAD measures it (Rajpurkar et al.,
// SQuAD: 100,000+ questions for machine comprehension of text, arXiv:1606.05250; Know what you don't know:
// unanswerable questions for SQuAD, arXiv:1806.03822).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Returns a text, which is UTF-8, as answers are compared: in lower case, without ASCII punctuation and the
// words a, an and the, and with one space between words.
std::string normal_answer(std::string_view text);

struct AnswerScore {
  double exact_match = 0;  // 1 if the answer is one of the right ones
  double f1 = 0;  // the harmonic mean of the precision and recall of words, with the best right answer
};
// Scores an answer. Without right answers an empty one is right.
AnswerScore score_answer(std::string_view found, const std::vector<std::string>& right);

}  // namespace weft
