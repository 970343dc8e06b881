// Makes the attribute rules that operations declare.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/operation.hpp"

namespace weft::operations {

// Returns the rule of a flag, an integer of at least `minimum`, or a text of one of `choices` (of any text if
// there are none). `standard` is the default value.
inline plan::AttributeRule flag(std::string key, bool standard, std::string documentation) {
  return {{.key = std::move(key), .kind = WEFT_KIND_BOOL, .integer = standard}, std::move(documentation)};
}
inline plan::AttributeRule integer(std::string key, int64_t standard, int64_t minimum,
                                   std::string documentation) {
  return {{.key = std::move(key), .kind = WEFT_KIND_INT, .integer = standard},
          std::move(documentation),
          {},
          minimum};
}
inline plan::AttributeRule text(std::string key, std::string standard, std::vector<std::string> choices,
                                std::string documentation) {
  return {{.key = std::move(key), .kind = WEFT_KIND_TEXT, .text = std::move(standard)},
          std::move(documentation),
          std::move(choices)};
}

// Returns the rule of the attribute "fused" of layers that have a fused and a plain form (nn::Fusible).
inline plan::AttributeRule in_one_pass() {
  return flag("fused", true,
              "true: the form that the user's options choose; false: always the plain form, the operations "
              "of Hugging Face's code");
}

}  // namespace weft::operations
