#include "tokenizer/post_processor.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "tokenizer/json_part.hpp"

namespace weft::tokenizer {

namespace {

using nlohmann::json;
using Element = PostProcessor::Element;
using Template = PostProcessor::Template;

// Reads a token with its id: ["[SEP]", 102].
int64_t id_in_pair(const JsonPart& part, const char* key) {
  const json& pair = part.list(key);
  if (pair.size() != 2) part.wrong(key, "a token and its id");
  return integer_of(pair[1], key, part.source());
}

Template read_template(const JsonPart& part, const char* key) {
  constexpr size_t kMostSequences = 16, kMostIds = 4096;
  Template elements;
  const json none = json::object();
  const json* tokens_of = part.find("special_tokens");
  const JsonPart specials(tokens_of ? *tokens_of : none, "\"special_tokens\"", part.source());
  size_t ids = 0, sequences = 0;
  for (const json& item : part.list(key)) {
    const JsonPart element(item, "an element of a template", part.source());
    if (element.find("Sequence")) {
      const JsonPart sequence(element.object("Sequence"), "\"Sequence\"", part.source());
      const std::string id = sequence.text("id");
      if (id != "A" && id != "B") sequence.wrong("id", "\"A\" or \"B\"");
      elements.push_back({id == "A" ? 0 : 1, {}, sequence.integer("type_id", 0)});
      if (++sequences > kMostSequences)
        part.wrong(key, fmt::format("a template with at most {} sequences", kMostSequences));
    } else {
      const JsonPart special(element.object("SpecialToken"), "\"SpecialToken\"", part.source());
      const std::string id = special.text("id");
      const JsonPart tokens(specials.object(id.c_str()), "a special token", part.source());
      ids += tokens.list("ids").size();
      if (ids > kMostIds) part.wrong(key, fmt::format("a template with at most {} special ids", kMostIds));
      elements.push_back({-1, integers_at(json{{"ids", tokens.list("ids")}}, "ids", part.source()),
                          special.integer("type_id", 0)});
    }
  }
  return elements;
}

}  // namespace

PostProcessor::PostProcessor(const json& part, const std::string& source) {
  if (!part.is_null()) read(part, source);
}

void PostProcessor::read(const json& json_part, const std::string& source) {
  const JsonPart part(json_part, "\"post_processor\"", source);
  const std::string& type = part.type();
  if (type == "ByteLevel") return;  // changes offsets alone
  if (type == "Sequence") {
    for (const json& item : part.list("processors")) read(item, source);
    return;
  }
  if (joins_) part.unknown("type", type + " behind another part that adds tokens");
  joins_ = true;
  if (type == "TemplateProcessing") {
    single_ = read_template(part, "single");
    pair_ = read_template(part, "pair");
    for (const Element& element : single_)
      if (element.sequence == 1) part.wrong("single", "a template of one sequence");
    return;
  }
  if (type != "BertProcessing" && type != "RobertaProcessing") part.unknown("type", type);
  const int64_t separator = id_in_pair(part, "sep"), first = id_in_pair(part, "cls");
  single_ = {{-1, {first}, 0}, {0, {}, 0}, {-1, {separator}, 0}};
  pair_ = single_;
  if (type == "BertProcessing")
    pair_.insert(pair_.end(), {{1, {}, 1}, {-1, {separator}, 1}});
  else
    pair_.insert(pair_.end(), {{-1, {separator}, 0}, {1, {}, 0}, {-1, {separator}, 0}});
}

PostProcessor::PostProcessor(std::optional<int64_t> begin, std::optional<int64_t> end) : joins_(true) {
  single_.clear();
  pair_.clear();
  for (int sequence = 0; sequence < 2; ++sequence) {
    Template one;
    if (begin) one.push_back({-1, {*begin}, sequence});
    one.push_back({sequence, {}, sequence});
    if (end) one.push_back({-1, {*end}, sequence});
    if (sequence == 0) single_ = one;
    pair_.insert(pair_.end(), one.begin(), one.end());
  }
}

std::vector<int64_t> PostProcessor::join(const std::vector<std::vector<int64_t>>& sequences,
                                         bool add_special_tokens, std::vector<int64_t>* types) const {
  std::vector<int64_t> joined;
  if (types) types->clear();
  for (const Element& element : sequences.size() == 1 ? single_ : pair_) {
    if (element.sequence < 0 && !add_special_tokens) continue;
    const std::vector<int64_t>& ids =
        element.sequence < 0 ? element.ids : sequences[static_cast<size_t>(element.sequence)];
    joined.insert(joined.end(), ids.begin(), ids.end());
    if (types) types->resize(joined.size(), element.type);
  }
  return joined;
}

}  // namespace weft::tokenizer
