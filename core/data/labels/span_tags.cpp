#include "labels/span_tags.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "loader/json_text.hpp"
#include "text/characters.hpp"
#include "weft/nn/field_names.hpp"

namespace weft::data {

using nlohmann::json;

namespace {

// Returns the byte of a place in the text, in characters.
size_t place_in(const json& span, const char* key, const std::string& text) {
  const json& place = member_at(span, key);
  const bool is_index =
      place.is_number_integer() && (place.is_number_unsigned() || place.get<int64_t>() >= 0);
  if (!is_index || place.get<uint64_t>() > static_cast<uint64_t>(characters_before(text, text.size())))
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be the index of one of the {} characters of the text",
         key, printable(place.dump(), 40), characters_before(text, text.size()));
  return byte_of_character(text, place.get<uint64_t>());
}

// Returns whether the token has text of this part.
bool is_in(const TokenSpan& token, const RowSpan& span) {
  return token.begin < span.end && token.end > span.begin;
}

}  // namespace

void read_spans(const json& spans, LabelledRow& row) {
  if (!spans.is_array()) fail(WEFT_INVALID_ARGUMENT, "\"spans\" is {}, must be a list", json_kind(spans));
  std::vector<std::pair<RowSpan, std::string>> found;
  for (const json& span : spans) {
    if (!span.is_object())
      fail(WEFT_INVALID_ARGUMENT,
           "\"spans\" has {}, must have {{\"start\": ..., \"end\": ..., \"label\": ...}}", json_kind(span));
    const RowSpan place = {place_in(span, "start", row.text), place_in(span, "end", row.text)};
    if (place.begin >= place.end)
      fail(WEFT_INVALID_ARGUMENT, "a span begins at {} and ends at {}, must have a character",
           span.at("start").dump(), span.at("end").dump());
    found.emplace_back(place, text_at(span, "label"));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0 && found[i].first.begin < found[i - 1].first.end)
      fail(WEFT_INVALID_ARGUMENT, "the spans \"{}\" and \"{}\" overlap; each token has one tag",
           printable(found[i - 1].second, 60), printable(found[i].second, 60));
    row.spans.push_back(found[i].first);
    row.label.values.push_back(found[i].second);
  }
  row.label.kind = RowLabel::Kind::kText;
}

std::vector<int64_t> span_labels(const LabelledRow& row, const LabelledRows& rows,
                                 const EncodedSequence& sequence, const std::vector<std::string>& names) {
  const auto class_of = [&](const std::string& tag) {
    const auto found = std::find(names.begin(), names.end(), tag);
    if (found == names.end())
      fail(WEFT_INVALID_ARGUMENT,
           "{}: it needs the tag \"{}\", which the model does not have; its tags are: {}",
           rows.text_of(row.place), printable(tag, 60), printable(fmt::format("{}", fmt::join(names, ", "))));
    return static_cast<int64_t>(found - names.begin());
  };
  std::vector<int64_t> labels;
  size_t next = 0;  // the first part that may hold the token
  bool begun = false;
  for (const TokenSpan& token : sequence.spans) {
    if (token.begin == token.end) {
      labels.push_back(nn::kIgnored);
      continue;
    }
    for (; next < row.spans.size() && row.spans[next].end <= token.begin; ++next) begun = false;
    if (next == row.spans.size() || !is_in(token, row.spans[next])) {
      labels.push_back(class_of(kOutsideTag));
      continue;
    }
    const std::string& label = row.label.values[next];
    labels.push_back(class_of(begun ? inner_tag(label) : first_tag(label)));
    begun = true;
  }
  return labels;
}

std::vector<PredictedSpan> spans_of(const std::string& text, const EncodedSequence& sequence,
                                    const std::vector<std::string>& tags,
                                    const std::vector<double>& probabilities) {
  std::vector<PredictedSpan> found;
  std::string before;  // the type of the token before
  double tokens = 0;   // of the last part
  for (size_t i = 0; i < sequence.spans.size(); ++i) {
    const TokenSpan& token = sequence.spans[i];
    if (token.begin == token.end) continue;
    const bool is_part = tags[i].starts_with("B-") || tags[i].starts_with("I-");
    const std::string type = is_part ? tags[i].substr(2) : "";
    const int64_t end = characters_before(text, token.end);
    if (is_part && (tags[i][0] == 'B' || type != before)) {
      found.push_back({characters_before(text, token.begin), end, type, probabilities[i]});
      tokens = 1;
    } else if (is_part) {
      PredictedSpan& last = found.back();
      last.end = end;
      last.probability = (last.probability * tokens + probabilities[i]) / (tokens + 1);
      ++tokens;
    }
    before = type;
  }
  return found;
}

}  // namespace weft::data
