#include "sequence_modes/sequence_mode.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "sequence_modes/list.hpp"

namespace weft::sequence_modes {

#define WEFT_DECLARE(name) plan::SequenceMode name();
WEFT_SEQUENCE_MODES(WEFT_DECLARE)

}  // namespace weft::sequence_modes

namespace weft::plan {

const std::vector<SequenceMode>& sequence_modes() {
#define WEFT_MAKE(name) sequence_modes::name(),
  static const std::vector<SequenceMode> kModes = {WEFT_SEQUENCE_MODES(WEFT_MAKE)};
  return kModes;
}

const SequenceMode* find_sequence_mode(std::string_view name) {
  const std::vector<SequenceMode>& modes = sequence_modes();
  const auto found =
      std::find_if(modes.begin(), modes.end(), [&](const SequenceMode& mode) { return mode.name == name; });
  return found == modes.end() ? nullptr : &*found;
}

std::string names_of_modes(bool (*has)(const SequenceMode& mode)) {
  std::vector<std::string> names;
  for (const SequenceMode& mode : sequence_modes())
    if (has(mode)) names.emplace_back(mode.name);
  return alternatives(names);
}

const SequenceMode& sequence_mode_of(const ParallelSizes& sizes) {
  if (const SequenceMode* mode = find_sequence_mode(sizes.sequence_mode)) return *mode;
  fail(WEFT_INTERNAL, "no sequence mode is called \"{}\"", sizes.sequence_mode);
}

}  // namespace weft::plan
