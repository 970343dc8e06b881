#include "operations/cut_rules.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "weft/split_parameter.hpp"

namespace weft::plan {
namespace {

// The units, heads or single elements, in which a dimension is sharded, and their layout.
struct Units {
  std::vector<int64_t> parts;   // number of units of each fused part
  int64_t groups = 1;           // interleaved groups, each of which has its share of every part
  int64_t size = 1;             // elements of one unit
  bool repeats_first = false;   // several ranks may hold the same unit of the first part if there are too few
  bool repeats_others = false;  // the same for the units of the other parts
};

// Returns the units of `rank`. If there are fewer units than ranks, several ranks have the same one.
Run share(int64_t units, int64_t rank, int64_t ranks) {
  if (units < ranks) return {rank * units / ranks, 1};
  return {rank * (units / ranks), units / ranks};
}

// Returns true if every part can be sharded over so many ranks.
bool fits(const Units& units, int64_t ranks) {
  bool first = true;
  for (const int64_t part : units.parts) {
    const bool repeats = first ? units.repeats_first : units.repeats_others;
    if (part % ranks != 0 && !(repeats && ranks % part == 0)) return false;
    first = false;
  }
  return true;
}

// Appends a run, or extends the last one if the run continues it.
void append(std::vector<Run>& runs, const Run& next) {
  if (!runs.empty() && runs.back().end() == next.begin)
    runs.back().count += next.count;
  else
    runs.push_back(next);
}

// Returns the elements of `rank` along the dimension.
std::vector<Run> runs_of(const Units& units, int64_t rank, int64_t ranks) {
  std::vector<Run> runs;
  int64_t at = 0;
  for (int64_t group = 0; group < units.groups; ++group) {
    for (const int64_t part : units.parts) {
      const int64_t count = part / units.groups, first = group * count;
      const Run own = share(part, rank, ranks);
      const int64_t begin = std::max(own.begin, first), end = std::min(own.end(), first + count);
      if (begin < end) append(runs, {(at + begin - first) * units.size, (end - begin) * units.size});
      at += count;
    }
  }
  return runs;
}

// Returns the rows of `rank`: equal shares rounded up to a multiple of `multiple`. The last ranks get fewer
// rows, perhaps none.
Run share_of_vocabulary(int64_t count, int64_t multiple, int64_t rank, int64_t ranks) {
  const int64_t most = ((count + ranks - 1) / ranks + multiple - 1) / multiple * multiple;
  const int64_t begin = std::min(count, rank * most);
  return {begin, std::min(count, begin + most) - begin};
}

// Returns the nearest sizes of the tensor axis that fit, below and above `ranks`.
std::string nearest_sizes(const Units& units, int64_t ranks) {
  std::vector<int64_t> sizes;
  for (int64_t size = ranks - 1; size > 0 && sizes.empty(); --size)
    if (fits(units, size)) sizes.push_back(size);
  const size_t below = sizes.size();
  for (int64_t size = ranks + 1; size <= ranks + units.parts[0] && sizes.size() == below; ++size)
    if (fits(units, size)) sizes.push_back(size);
  return fmt::format("{}", fmt::join(sizes, " and "));
}

// Returns "8 + 2 x 4 heads", "3 x 8 heads" or "8 heads".
std::string heads_text(const SplitRule& rule) {
  if (rule.key_heads > 0)
    return fmt::format("{} + {} x {} heads", rule.heads, rule.parts - 1, rule.key_heads);
  return rule.parts > 1 ? fmt::format("{} x {} heads", rule.parts, rule.heads)
                        : fmt::format("{} heads", rule.heads);
}

// Returns the units of a dimension of `extent` elements, without parts if the dimension does not consist of
// such units.
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
  // Of elements that several ranks hold only one rank counts; along another dimension they would not be
  // contiguous.
  units.repeats_others = units.repeats_first || (rule.key_heads > 0 && rule.dim == 0);
  return units;
}

// Fills the cuts with equal shards. Returns an error text, empty on success.
std::string split_equally(PlannedParameter& parameter, const SplitRule& rule, int64_t ranks) {
  const auto dim = static_cast<size_t>(rule.dim);
  const int64_t extent = parameter.shape[dim];
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
  for (int64_t rank = 0; rank < ranks; ++rank)
    parameter.cuts.push_back(Cut::along(parameter.shape, dim, runs_of(units, rank, ranks)));
  return "";
}

}  // namespace

std::string split_parameter(PlannedParameter& parameter, const SplitRule& rule, const ParallelSizes& sizes) {
  if (rule.dim >= static_cast<int64_t>(parameter.shape.size())) {
    return fmt::format("of shape ({}), but dimension {} is to be split", fmt::join(parameter.shape, ", "),
                       rule.dim);
  }
  parameter.partition_axes = tensor_axes();
  const auto dim = static_cast<size_t>(rule.dim);
  const auto mark = [&] {
    // A single rank keeps everything. An empty run marks the dimension that more ranks would shard, so that
    // tied parameters compare the same on any number of ranks.
    if (parameter.cuts.size() == 1) parameter.cuts[0].dims[dim].push_back({parameter.shape[dim], 0});
  };
  if (rule.equal) {
    const std::string problem = split_equally(parameter, rule, sizes.tensor);
    mark();
    return problem;
  }
  for (int64_t rank = 0; rank < sizes.tensor; ++rank)
    parameter.cuts.push_back(Cut::along(
        parameter.shape, dim,
        {share_of_vocabulary(parameter.shape[dim], sizes.vocabulary_multiple, rank, sizes.tensor)}));
  mark();
  return "";
}

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
