#include "checkpoint/stored_names.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace weft::checkpoint {

std::string without_wrappers(std::string_view name) {
  constexpr std::array<std::string_view, 3> kAnywhere = {"_orig_mod", "_fsdp_wrapped_module",
                                                         "_checkpoint_wrapped_module"};
  std::string plain;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const bool is_last = end == name.size();
    const bool is_wrapper = std::find(kAnywhere.begin(), kAnywhere.end(), part) != kAnywhere.end() ||
                            (part == "module" && plain.empty());
    if (is_last || !is_wrapper) plain += std::string(part) + (is_last ? "" : ".");
    begin = end + 1;
  }
  return plain;
}

StoredNames::StoredNames(const TensorSource& source, const std::string& path,
                         const std::vector<std::string>& known) {
  const bool has_own = std::any_of(known.begin(), known.end(),
                                   [](const std::string& name) { return without_wrappers(name) != name; });
  for (const Entry& entry : source.entries()) {
    names_.push_back(has_own ? entry.name : without_wrappers(entry.name));
    const auto [place, is_new] = index_.emplace(names_.back(), names_.size() - 1);
    if (!is_new)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: {} and {} are one parameter, {}: \"module.\" and \"_orig_mod.\" come from wrappers of "
           "modules; delete the entry that is wrong",
           path, source.entries()[place->second].name, entry.name, names_.back());
  }
}

std::optional<size_t> StoredNames::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? std::nullopt : std::optional<size_t>(found->second);
}

}  // namespace weft::checkpoint
