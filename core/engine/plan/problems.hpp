// Collects the problems that the checks of a plan find, and groups the modules that share one.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "plan/description.hpp"

namespace weft::plan {

// Adds `text` unless it is there.
inline void add_once(std::vector<std::string>& texts, std::string text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
}

// Collects the problems of modules. Modules with the same problem share one line.
class PerNode {
 public:
  void add(const std::string& path, const std::string& problem) {
    const auto same = std::find_if(groups_.begin(), groups_.end(),
                                   [&](const auto& group) { return group.first == problem; });
    if (same == groups_.end())
      groups_.push_back({problem, {path}});
    else
      same->second.push_back(path);
  }
  // Returns "<paths> <problem>" for each problem, in the order in which they were found.
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& [problem, paths] : groups_)
      lines.push_back(fmt::format("{} {}", fmt::join(compress_paths(paths), ", "), problem));
    return lines;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> groups_;
};

}  // namespace weft::plan
