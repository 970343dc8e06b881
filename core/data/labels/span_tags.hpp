// Parts of texts with labels, and the tags of the tokens in them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "labels/labelled_rows.hpp"
#include "labels/text_encoding.hpp"

namespace weft::data {

// Reads "spans" of a row, [{"start": 0, "end": 4, "label": "X"}, ...] with places in characters of its text,
// into the row. Throws INVALID_ARGUMENT for a part that is not in the text, and for parts that overlap.
void read_spans(const nlohmann::json& spans, LabelledRow& row);

// Returns the tags of a part with this label: of its first token, and of the others.
inline std::string first_tag(const std::string& label) {
  return "B-" + label;
}
inline std::string inner_tag(const std::string& label) {
  return "I-" + label;
}
inline constexpr const char* kOutsideTag = "O";

// Returns the classes of the tokens of a row of parts: of the first token of each part, of its others, and of
// tokens in no part; -100 for tokens without text. Throws INVALID_ARGUMENT with the place of the row for a
// tag that is not among the names.
std::vector<int64_t> span_labels(const LabelledRow& row, const LabelledRows& rows,
                                 const EncodedSequence& sequence, const std::vector<std::string>& names);

// A part of a text that is predicted, in characters.
struct PredictedSpan {
  int64_t start = 0, end = 0;
  std::string label;
  double probability = 0;  // the mean of those of its tokens
};
// Returns the parts that the tags of tokens make up, as Tags finds entities. `tags`: of each token of the
// sequence, with their probabilities.
std::vector<PredictedSpan> spans_of(const std::string& text, const EncodedSequence& sequence,
                                    const std::vector<std::string>& tags,
                                    const std::vector<double>& probabilities);

}  // namespace weft::data
