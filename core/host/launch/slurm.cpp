#include "host/launch/slurm.hpp"

#include <charconv>
#include <optional>

#include "base/text.hpp"

namespace weft::launch {
namespace {

constexpr size_t kMostHosts = 65536;
constexpr size_t kMostDigits = 9;

std::optional<int> number(std::string_view text) {
  int value = 0;
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

class HostList {
 public:
  HostList(const char* variable, std::string_view text) : variable_(variable), text_(text) {}

  std::vector<std::string> expand() {
    size_t begin = 0;
    int depth = 0;
    for (size_t i = 0; i <= text_.size(); ++i) {
      const char c = i < text_.size() ? text_[i] : ',';
      depth += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (depth < 0 || depth > 1 || (i == text_.size() && depth != 0)) malformed();
      if (c != ',' || depth > 0) continue;
      if (i == begin) malformed();
      expand_entry("", text_.substr(begin, i - begin));
      begin = i + 1;
    }
    return std::move(hosts_);
  }

 private:
  [[noreturn]] void malformed() const {
    fail(WEFT_INVALID_ARGUMENT,
         "environment variable {} is \"{}\", but must be a list of hosts such as n[01-03,7],m2", variable_,
         printable(text_));
  }

  // `prefix` is expanded already; `rest` may have brackets.
  void expand_entry(const std::string& prefix, std::string_view rest) {
    const size_t open = rest.find('[');
    if (open == std::string_view::npos) {
      if (hosts_.size() == kMostHosts) {
        fail(WEFT_INVALID_ARGUMENT, "environment variable {} names more than {} hosts", variable_,
             kMostHosts);
      }
      hosts_.push_back(prefix + std::string(rest));
      return;
    }
    const size_t close = rest.find(']');
    const std::string start = prefix + std::string(rest.substr(0, open));
    const std::string_view ranges = rest.substr(open + 1, close - open - 1);
    const std::vector<std::string> parts = split(ranges, ',');
    if (parts.empty()) malformed();
    for (const std::string& range : parts) expand_range(start, range, rest.substr(close + 1));
  }

  void expand_range(const std::string& start, std::string_view range, std::string_view rest) {
    const size_t dash = range.find('-');
    const std::string_view low_text = range.substr(0, dash);
    const std::optional<int> low = number(low_text);
    const std::optional<int> high = dash == std::string_view::npos ? low : number(range.substr(dash + 1));
    if (!low || !high || *high < *low) malformed();
    for (int i = *low; i <= *high; ++i)
      expand_entry(fmt::format("{}{:0{}}", start, i, low_text.size()), rest);
  }

  const char* variable_;
  std::string_view text_;
  std::vector<std::string> hosts_;
};

}  // namespace

std::vector<std::string> expand_host_list(const char* variable, std::string_view text) {
  return HostList(variable, text).expand();
}

std::vector<int> expand_task_counts(const char* variable, std::string_view text) {
  std::vector<int> counts;
  for (const std::string& part : split(text, ',')) {
    const std::string_view entry = part;
    const size_t open = entry.find("(x");
    const bool repeats = open != std::string_view::npos && entry.ends_with(")");
    const std::optional<int> count = number(entry.substr(0, open));
    const std::optional<int> times = repeats ? number(entry.substr(open + 2, entry.size() - open - 3)) : 1;
    if (!count || !times || (open != std::string_view::npos && !repeats) ||
        counts.size() + *times > kMostHosts) {
      counts.clear();
      break;
    }
    counts.insert(counts.end(), *times, *count);
  }
  if (counts.empty()) {
    fail(WEFT_INVALID_ARGUMENT,
         "environment variable {} is \"{}\", but must be tasks per node such as 2(x3),1", variable,
         printable(text));
  }
  return counts;
}

}  // namespace weft::launch
