// The names that the entries of a checkpoint have in the model.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/format.hpp"

namespace weft::checkpoint {

// Returns a name without what wrappers of modules add to it: "module." in front (DistributedDataParallel),
// and anywhere "_orig_mod." (torch.compile), "_fsdp_wrapped_module." and "_checkpoint_wrapped_module.".
std::string without_wrappers(std::string_view name);

// Finds entries by their names without wrappers.
class StoredNames {
 public:
  // `known` are the names of the model; one that begins with a wrapper's name keeps it. Throws
  // INVALID_ARGUMENT if two entries have one name without wrappers.
  StoredNames(const TensorSource& source, const std::string& path, const std::vector<std::string>& known);
  // Returns the name of each entry, in their order.
  const std::vector<std::string>& all() const { return names_; }
  std::optional<size_t> find(std::string_view name) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace weft::checkpoint
