// Collects the problems that the checks of a plan find, and groups modules by a text that they share.
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

// Collects a text for each module, such as its problem. Modules with the same text share one line.
class PerNode {
 public:
  void add(const std::string& path, const std::string& text) {
    const auto same =
        std::find_if(groups_.begin(), groups_.end(), [&](const auto& group) { return group.first == text; });
    if (same == groups_.end())
      groups_.push_back({text, {path}});
    else
      same->second.push_back(path);
  }
  // Returns each text with the paths that have it, in the order in which the texts were added.
  const std::vector<std::pair<std::string, std::vector<std::string>>>& groups() const { return groups_; }
  // Returns "<paths> <text>" for each text.
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& [text, paths] : groups_)
      lines.push_back(fmt::format("{} {}", fmt::join(compress_paths(paths), ", "), text));
    return lines;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> groups_;
};

}  // namespace weft::plan
