#include "plan/operations.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace weft::plan {
namespace {

Attribute flag(std::string key, bool value = false) {
  return {.key = std::move(key), .kind = WEFT_KIND_BOOL, .integer = value};
}
Attribute integer(std::string key, int64_t value) {
  return {.key = std::move(key), .kind = WEFT_KIND_INT, .integer = value};
}
Attribute text(std::string key, std::string value) {
  return {.key = std::move(key), .kind = WEFT_KIND_TEXT, .text = std::move(value)};
}

const char* kind_name(uint32_t kind) {
  switch (kind) {
    case WEFT_KIND_BOOL:
      return "a flag";
    case WEFT_KIND_INT:
      return "an integer";
    case WEFT_KIND_FLOAT:
      return "a real number";
    case WEFT_KIND_TEXT:
      return "a text";
    case WEFT_KIND_JSON:
      return "JSON";
    default:
      return "no value";
  }
}

const AttributeRule* find_rule(const Operation& operation, std::string_view key) {
  const auto found = std::find_if(operation.attributes.begin(), operation.attributes.end(),
                                  [&](const AttributeRule& rule) { return rule.standard.key == key; });
  return found == operation.attributes.end() ? nullptr : &*found;
}

std::string known_keys(const Operation& operation) {
  if (operation.attributes.empty()) return "it has none";
  std::vector<std::string> keys;
  for (const AttributeRule& rule : operation.attributes) keys.push_back(rule.standard.key);
  return fmt::format("it has {}", fmt::join(keys, ", "));
}

std::string value_problem(const AttributeRule& rule, const Attribute& given) {
  if (given.kind != rule.standard.kind) {
    return fmt::format("is {}, must be {}", kind_name(given.kind), kind_name(rule.standard.kind));
  }
  if (given.kind == WEFT_KIND_INT && given.integer < rule.minimum) {
    return fmt::format("is {}, must be at least {}", given.integer, rule.minimum);
  }
  if (!rule.choices.empty() &&
      std::find(rule.choices.begin(), rule.choices.end(), given.text) == rule.choices.end()) {
    return fmt::format("is \"{}\", must be one of {}{}", printable(given.text), fmt::join(rule.choices, ", "),
                       did_you_mean(given.text, rule.choices));
  }
  return "";
}

const Attribute* find_attribute(const std::vector<Attribute>& attributes, std::string_view key) {
  const auto found =
      std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.key == key; });
  return found == attributes.end() ? nullptr : &*found;
}

struct SplitRule {
  int64_t dim = -1;
  int64_t parts = 1;         // each split by itself
  int64_t heads = 0;         // of the first part, which stay whole; 0: elements
  int64_t key_heads = 0;     // of every other part; 0: as many
  bool interleaved = false;  // group by group: heads of the first part, then those of the others
  bool equal = true;         // the ranks' parts
};

SplitRule split_rule(Split split, const std::vector<Attribute>& attributes, std::string_view param) {
  const Attribute* layout = find_attribute(attributes, "layout");
  const bool in_out = layout && layout->text == "in_out";
  const bool is_weight = param == "weight";
  switch (split) {
    case Split::kColumn: {
      const auto value = [&](std::string_view key) { return find_attribute(attributes, key)->integer; };
      return {.dim = is_weight && in_out ? 1 : 0,
              .parts = value("fused"),
              .heads = value("heads"),
              .key_heads = value("key_heads"),
              .interleaved = value("interleaved") != 0};
    }
    case Split::kRow:
      return is_weight ? SplitRule{.dim = in_out ? 0 : 1} : SplitRule{};
    case Split::kChannels:
      return {.dim = 1};
    case Split::kVocabulary:
      return {.dim = 0, .equal = false};
    case Split::kNone:
      break;
  }
  return {};
}

// What stays whole when a dimension is split, heads or elements, and how it lies.
struct Units {
  std::vector<int64_t> parts;  // how many each part has
  int64_t groups = 1;          // each has its share of every part, one after the other
  int64_t size = 1;            // elements of one
  bool repeats_first = false;  // of which parts several ranks may hold the same one, if there are too few
  bool repeats_others = false;
};

// Rank `rank`'s of `units`.
Segment share(int64_t units, int64_t rank, int64_t ranks) {
  if (units < ranks) return {rank * units / ranks, 1, ranks / units};
  return {rank * (units / ranks), units / ranks};
}

bool fits(const Units& units, int64_t ranks) {
  bool first = true;
  for (const int64_t part : units.parts) {
    const bool repeats = first ? units.repeats_first : units.repeats_others;
    if (part % ranks != 0 && !(repeats && ranks % part == 0)) return false;
    first = false;
  }
  return true;
}

// What goes on where the last segment ends is part of it.
void append(std::vector<Segment>& segments, const Segment& next) {
  if (!segments.empty() && segments.back().begin + segments.back().count == next.begin &&
      segments.back().copies == next.copies)
    segments.back().count += next.count;
  else
    segments.push_back(next);
}

Cut cut_of(const Units& units, int64_t dim, int64_t rank, int64_t ranks) {
  Cut cut = {.dim = dim, .segments = {}};
  int64_t at = 0;
  for (int64_t group = 0; group < units.groups; ++group) {
    for (const int64_t part : units.parts) {
      const int64_t count = part / units.groups, first = group * count;
      const Segment own = share(part, rank, ranks);
      const int64_t begin = std::max(own.begin, first), end = std::min(own.begin + own.count, first + count);
      if (begin < end)
        append(cut.segments, {(at + begin - first) * units.size, (end - begin) * units.size, own.copies});
      at += count;
    }
  }
  return cut;
}

// Equal shares rounded up to whole multiples; what is left for the last ranks may be nothing.
Segment share_of_vocabulary(int64_t count, int64_t multiple, int64_t rank, int64_t ranks) {
  const int64_t most = ((count + ranks - 1) / ranks + multiple - 1) / multiple * multiple;
  const int64_t begin = std::min(count, rank * most);
  return {begin, std::min(count, begin + most) - begin};
}

// The sizes next to `ranks` that fit.
std::string nearest_sizes(const Units& units, int64_t ranks) {
  std::vector<int64_t> sizes;
  for (int64_t size = ranks - 1; size > 0 && sizes.empty(); --size)
    if (fits(units, size)) sizes.push_back(size);
  const size_t below = sizes.size();
  for (int64_t size = ranks + 1; size <= ranks + units.parts[0] && sizes.size() == below; ++size)
    if (fits(units, size)) sizes.push_back(size);
  return fmt::format("{}", fmt::join(sizes, " and "));
}

// "8 + 2 x 4 heads", "3 x 8 heads", "8 heads".
std::string heads_text(const SplitRule& rule) {
  if (rule.key_heads > 0)
    return fmt::format("{} + {} x {} heads", rule.heads, rule.parts - 1, rule.key_heads);
  return rule.parts > 1 ? fmt::format("{} x {} heads", rule.parts, rule.heads)
                        : fmt::format("{} heads", rule.heads);
}

// The units of a dimension of `extent` elements; none if it is not made of them.
Units units_of(const SplitRule& rule, int64_t extent) {
  if (rule.parts > extent || rule.heads > extent) return {};
  const int64_t first = rule.heads > 0 ? rule.heads : extent / rule.parts;
  const int64_t other = rule.key_heads > 0 ? rule.key_heads : first;
  const int64_t total = first + (rule.parts - 1) * other;
  if (extent % total != 0) return {};
  Units units = {.parts = std::vector<int64_t>(static_cast<size_t>(rule.parts), other)};
  units.parts[0] = first;
  units.size = extent / total;
  if (rule.interleaved) units.groups = other;
  units.repeats_first = rule.heads > 0 && rule.key_heads == 0;
  // Along another dimension the elements that one of several ranks counts would be strewn over its part.
  units.repeats_others = units.repeats_first || (rule.key_heads > 0 && rule.dim == 0);
  return units;
}

// Returns what does not fit.
std::string split_equally(ParameterCut& cut, const SplitRule& rule, int64_t ranks) {
  const int64_t extent = cut.shape[static_cast<size_t>(rule.dim)];
  const Units units = units_of(rule, extent);
  if (units.parts.empty())
    return fmt::format("with {} elements along dimension {}, which are not {}", extent, rule.dim,
                       rule.heads > 0 ? heads_text(rule) + " of one size"
                                      : fmt::format("{} equal parts (fused = {})", rule.parts, rule.parts));
  if (!fits(units, ranks))
    return fmt::format(
        "with {} along dimension {}{}, which tensor_size {} cannot share out; the nearest that "
        "can: {}",
        rule.heads > 0 ? heads_text(rule) : fmt::format("{} elements", units.parts[0]), rule.dim,
        rule.heads == 0 && rule.parts > 1 ? fmt::format(" in each of {} parts", rule.parts) : "", ranks,
        nearest_sizes(units, ranks));
  for (int64_t rank = 0; rank < ranks; ++rank) cut.ranks.push_back(cut_of(units, rule.dim, rank, ranks));
  return "";
}

// Splits `cut` along the rule's dimension over the ranks; returns what does not fit.
std::string split(ParameterCut& cut, const SplitRule& rule, const ParallelSizes& sizes) {
  if (rule.dim >= static_cast<int64_t>(cut.shape.size())) {
    return fmt::format("of shape ({}), but dimension {} is to be split", fmt::join(cut.shape, ", "),
                       rule.dim);
  }
  if (rule.equal) return split_equally(cut, rule, sizes.tensor);
  const int64_t extent = cut.shape[static_cast<size_t>(rule.dim)];
  for (int64_t rank = 0; rank < sizes.tensor; ++rank)
    cut.ranks.push_back(
        {rule.dim, {share_of_vocabulary(extent, sizes.vocabulary_multiple, rank, sizes.tensor)}});
  return "";
}

// Attributes of one entry that do not go together; empty if all do.
std::string contradiction(const SplitRule& rule) {
  if (rule.key_heads > 0 && (rule.parts < 2 || rule.heads == 0 || rule.heads % rule.key_heads != 0))
    return fmt::format(
        "cannot have key_heads = {} beside fused = {} and heads = {}: of at least 2 parts the first has "
        "heads, a multiple of key_heads, and each other key_heads",
        rule.key_heads, rule.parts, rule.heads);
  if (rule.interleaved && (rule.parts < 2 || rule.heads == 0))
    return fmt::format("cannot have interleaved = true beside fused = {} and heads = {}: it needs both",
                       rule.parts, rule.heads);
  return "";
}

// The layout in which a kind of node keeps its weight; empty if that is not its question.
std::string layout_of(const std::string& kind) {
  if (kind == "Conv1D") return "in_out";
  if (kind == "Linear") return "out_in";
  return "";
}

}  // namespace

const std::vector<Operation>& known_operations() {
  static const AttributeRule kLayout = {text("layout", "out_in"), {"out_in", "in_out"}};
  static const AttributeRule kFused = {.standard = integer("fused", 1), .choices = {}, .minimum = 1};
  const auto kHeads = [](const char* key) {
    return AttributeRule{.standard = integer(key, 0), .choices = {}, .minimum = 0};
  };
  const auto kFlag = [](const char* key) { return AttributeRule{.standard = flag(key), .choices = {}}; };
  // Of a layer that has two forms (nn::Fusible); elsewhere "fused" is a number of parts.
  static const AttributeRule kInOnePass = {.standard = flag("fused", true), .choices = {}};
  static const AttributeRule kFlash = {.standard = flag("flash", true), .choices = {}};
  static const AttributeRule kInput = {text("input", "own"), {"own", "shared", "entered"}};
  static const std::vector<Operation> kOperations = {
      {"weft.activation/1", {"Activation"}, {kInOnePass}, Split::kNone},
      {"weft.attention/1", {"Attention"}, {kFlash}, Split::kNone},
      {"weft.attention_bias/1", {"RelativeAttentionBias"}, {}, Split::kChannels},
      {"weft.cross_attention/1",
       {"Attention"},
       {kFlash, {.standard = text("source", ""), .choices = {}}},
       Split::kNone},
      {"weft.dropout/1", {"Dropout"}, {kInOnePass, kFlag("split")}, Split::kNone},
      {"weft.embedding/1", {"Embedding"}, {}, Split::kNone},
      {"weft.embedding_vocab/1", {"Embedding"}, {}, Split::kVocabulary},
      {"weft.layer_norm/1", {"LayerNorm"}, {kInOnePass, kFlag("split")}, Split::kNone},
      {"weft.linear_column/1",
       {"Conv1D", "Linear"},
       {kFused, kHeads("heads"), kInput, kFlag("interleaved"), kHeads("key_heads"), kLayout},
       Split::kColumn},
      {"weft.linear_row/1", {"Conv1D", "Linear"}, {kLayout}, Split::kRow},
      {"weft.linear_vocab/1", {"Linear"}, {kFlag("parallel_output"), kFlag("split")}, Split::kVocabulary},
      {"weft.parallel_input/1", {"Identity"}, {}, Split::kNone},
      {"weft.rms_norm/1", {"RMSNorm"}, {kInOnePass, kFlag("split")}, Split::kNone},
      {"weft.sequence_begin/1", {"Identity"}, {}, Split::kNone},
      {"weft.sequence_end/1", {"Identity"}, {}, Split::kNone},
  };
  return kOperations;
}

const Operation* find_operation(std::string_view id) {
  const std::vector<Operation>& operations = known_operations();
  const auto found =
      std::find_if(operations.begin(), operations.end(), [&](const auto& o) { return o.id == id; });
  return found == operations.end() ? nullptr : &*found;
}

std::string unknown_operation(std::string_view id) {
  const std::string_view name = id.substr(0, id.rfind('/'));
  std::vector<std::string> ids;
  for (const Operation& operation : known_operations()) {
    ids.push_back(operation.id);
    if (std::string_view(operation.id).substr(0, operation.id.rfind('/')) == name) {
      return fmt::format("this host has the operation \"{}\", not its revision \"{}\"", operation.id, id);
    }
  }
  return fmt::format("no operation is called \"{}\"{} Known: {}", id,
                     nearest(id, ids) ? did_you_mean(id, ids) : std::string("."), fmt::join(ids, ", "));
}

std::vector<Attribute> complete_attributes(const Operation& operation, const std::vector<Attribute>& given,
                                           std::vector<std::string>& problems) {
  std::vector<Attribute> complete;
  for (const AttributeRule& rule : operation.attributes) complete.push_back(rule.standard);
  std::vector<std::string> seen;
  for (const Attribute& attribute : given) {
    const AttributeRule* rule = find_rule(operation, attribute.key);
    const std::string what = fmt::format("attribute \"{}\" of {}", printable(attribute.key), operation.id);
    if (!rule) {
      std::vector<std::string> keys;
      for (const AttributeRule& known : operation.attributes) keys.push_back(known.standard.key);
      problems.push_back(fmt::format("{} is unknown ({}){}", what, known_keys(operation),
                                     did_you_mean(attribute.key, keys)));
    } else if (std::find(seen.begin(), seen.end(), attribute.key) != seen.end()) {
      problems.push_back(fmt::format("{} is given twice", what));
    } else if (const std::string problem = value_problem(*rule, attribute); !problem.empty()) {
      problems.push_back(fmt::format("{} {}", what, problem));
    } else {
      complete[static_cast<size_t>(rule - operation.attributes.data())] = attribute;
    }
    seen.push_back(attribute.key);
  }
  return complete;
}

PlannedNode whole_node(const Node& node) {
  PlannedNode planned = {node.path, node.kind, {}};
  for (const ParameterShape& param : node.params) {
    planned.params.push_back({.name = param.name, .shape = param.shape, .ranks = {}});
  }
  return planned;
}

PlannedNode cut_node(const Node& node, const Operation& operation, const std::vector<Attribute>& attributes,
                     const ParallelSizes& sizes, std::vector<std::string>& problems) {
  PlannedNode planned = whole_node(node);
  if (std::find(operation.kinds.begin(), operation.kinds.end(), node.kind) == operation.kinds.end()) {
    problems.push_back(fmt::format("is of kind {}, but {} fits {} only", node.kind, operation.id,
                                   fmt::join(operation.kinds, " and ")));
    return planned;
  }
  const Attribute* layout = find_attribute(attributes, "layout");
  if (layout && !layout_of(node.kind).empty() && layout->text != layout_of(node.kind)) {
    problems.push_back(fmt::format("is a {}, whose layout is \"{}\", but the entry says layout = \"{}\"",
                                   node.kind, layout_of(node.kind), layout->text));
    return planned;
  }
  if (const std::string problem = contradiction(split_rule(operation.split, attributes, "weight"));
      !problem.empty()) {
    problems.push_back(problem);
    return planned;
  }
  for (ParameterCut& cut : planned.params) {
    const SplitRule rule = split_rule(operation.split, attributes, cut.name);
    if (rule.dim < 0) continue;
    const std::string problem = split(cut, rule, sizes);
    if (!problem.empty()) problems.push_back(fmt::format("has a {} {}", cut.name, problem));
  }
  return planned;
}

std::string nearest_divisors(int64_t value, int64_t size) {
  int64_t below = 0, above = 0;
  const auto consider = [&](int64_t divisor) {
    if (divisor < size) below = std::max(below, divisor);
    if (divisor > size && (above == 0 || divisor < above)) above = divisor;
  };
  for (int64_t i = 1; i <= value / i; ++i) {
    if (value % i != 0) continue;
    consider(i);
    consider(value / i);
  }
  std::vector<int64_t> sizes;
  if (below > 0) sizes.push_back(below);
  if (above > 0) sizes.push_back(above);
  return sizes.empty() ? "none" : fmt::format("{}", fmt::join(sizes, " and "));
}

}  // namespace weft::plan
