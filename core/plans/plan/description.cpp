#include "plan/description.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "base/text.hpp"

namespace weft::plan {
namespace {

bool is_number(std::string_view text) {
  constexpr size_t kLongest = 18;  // fits an int64_t
  if (text.empty() || text.size() > kLongest) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

size_t digits_at(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  return end - begin;
}

// Returns {0, 1, 2, 5} as "{0..2,5}", and a single number as itself.
std::string number_set(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.size() == 1) return std::to_string(numbers.front());
  std::vector<std::string> ranges;
  for (size_t begin = 0, end; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    ranges.push_back(end - begin == 1 ? std::to_string(numbers[begin])
                                      : fmt::format("{}..{}", numbers[begin], numbers[end - 1]));
  }
  return fmt::format("{{{}}}", fmt::join(ranges, ","));
}

using Components = std::vector<std::string>;

// Merges paths that differ only in a number at component `position`. A merged path stands where its first
// path stood.
std::vector<Components> merge_at(const std::vector<Components>& paths, size_t position) {
  std::vector<std::pair<Components, std::vector<int64_t>>> groups;
  std::map<Components, size_t> known;
  for (const Components& path : paths) {
    Components key = path;
    const bool numbered = position < path.size() && is_number(path[position]);
    if (numbered) key[position] = "*";  // no path contains `*`
    const auto [found, fresh] = known.emplace(key, groups.size());
    if (fresh) groups.emplace_back(key, std::vector<int64_t>{});
    if (numbered) groups[found->second].second.push_back(std::stoll(path[position]));
  }
  std::vector<Components> merged;
  for (auto& [key, numbers] : groups) {
    if (!numbers.empty()) key[position] = number_set(numbers);
    merged.push_back(std::move(key));
  }
  return merged;
}

}  // namespace

int64_t num_elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string parent_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return std::string(path.substr(0, dot == path.npos ? 0 : dot));
}

bool natural_less(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const size_t m = digits_at(a, i), n = digits_at(b, j);
    if (m > 0 && n > 0) {
      if (m != n) return m < n;  // names have no leading zeros
      const int order = a.substr(i, m).compare(b.substr(j, n));
      if (order != 0) return order < 0;
      i += m;
      j += n;
      continue;
    }
    if (a[i] != b[j]) {
      if (a[i] == '.' || b[j] == '.') return a[i] == '.';  // "h" before "head"
      return a[i] < b[j];
    }
    ++i;
    ++j;
  }
  return a.size() - i < b.size() - j;
}

std::vector<std::string> compress_paths(const std::vector<std::string>& paths) {
  std::vector<Components> merged;
  size_t longest = 0;
  for (const std::string& path : paths) {
    merged.push_back(split(path, '.'));
    longest = std::max(longest, merged.back().size());
  }
  for (size_t position = longest; position-- > 0;) merged = merge_at(merged, position);
  std::vector<std::string> result;
  for (const Components& path : merged) result.push_back(fmt::format("{}", fmt::join(path, ".")));
  return result;
}

std::vector<std::string> nearest_names(std::string_view text, const std::vector<std::string>& candidates,
                                       size_t limit) {
  constexpr size_t kLongest = 256;  // the time is quadratic in the length
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < candidates.size(); ++i) {
    std::string name = candidates[i].substr(0, kLongest);
    for (size_t open; (open = name.find('{')) != std::string::npos;) {
      const size_t close = name.find('}', open);
      name.replace(open, close == std::string::npos ? close : close - open + 1, "*");
    }
    order.emplace_back(edit_distance(text.substr(0, kLongest), name), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> nearest;
  for (const auto& [distance, index] : order) {
    if (nearest.size() == limit) break;
    nearest.push_back(candidates[index]);
  }
  return nearest;
}

}  // namespace weft::plan
