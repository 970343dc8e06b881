#include "evaluation/answer_search.hpp"

#include <algorithm>

#include "device/tensors.hpp"

namespace weft {

AnswerSearch::AnswerSearch(const data::QuestionSamples& samples, int64_t most_tokens)
    : samples_(samples), most_tokens_(most_tokens), found_(samples.questions().size()) {}

void AnswerSearch::add(const at::Tensor& starts, const at::Tensor& ends) {
  const auto values = [](const at::Tensor& logits) {
    return device::values_of<double>(logits.to(at::kDouble));
  };
  const std::vector<double> begin = values(starts), end = values(ends);
  const int64_t rows = starts.size(0), length = starts.size(1);
  for (int64_t row = 0; row < rows; ++row)
    search(samples_.window(next_++), begin.data() + row * length, end.data() + row * length);
}

void AnswerSearch::search(const data::QuestionSamples::Window& window, const double* starts,
                          const double* ends) {
  Found& found = found_[static_cast<size_t>(window.question)];
  const double none = starts[window.first] + ends[window.first];
  found.none = found.is_new ? none : std::min(found.none, none);
  found.is_new = false;
  const int64_t behind = window.position + window.count, shift = window.begin - window.position;
  for (int64_t first = window.position; first < behind; ++first)
    for (int64_t last = first; last < std::min(behind, first + most_tokens_); ++last) {
      const double logits = starts[first] + ends[last];
      if (found.first >= 0 && !(logits > found.logits)) continue;
      found.first = first + shift;
      found.last = last + shift;
      found.logits = logits;
    }
}

size_t AnswerSearch::begun() const {
  return static_cast<size_t>(
      std::count_if(found_.begin(), found_.end(), [](const Found& found) { return !found.is_new; }));
}

std::vector<std::string> AnswerSearch::texts() const {
  std::vector<std::string> texts;
  for (size_t i = 0; i < found_.size(); ++i) {
    const Found& found = found_[i];
    const bool is_none = found.first < 0 || (samples_.has_impossible() && found.none > found.logits);
    texts.push_back(is_none ? "" : samples_.text_of(static_cast<int64_t>(i), found.first, found.last));
  }
  return texts;
}

}  // namespace weft
