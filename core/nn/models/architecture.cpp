#include "weft/nn/architecture.hpp"

#include "base/text.hpp"

namespace weft::nn {

void refuse_architecture(std::string_view family, std::string_view name,
                         const std::vector<std::string>& known) {
  fail(WEFT_NOT_FOUND, "{}: no model class is called \"{}\"{}; there are: {}", family, printable(name, 60),
       did_you_mean(name, known), fmt::join(known, ", "));
}

}  // namespace weft::nn
