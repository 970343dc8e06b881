#include "loader/fingerprint.hpp"

#include <algorithm>

#include "base/sha256.hpp"
#include "base/text.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

std::string fingerprint(const Dataset& dataset, int64_t samples) {
  const int64_t count = std::min(samples, dataset.size());
  Sha256 digest;
  for (int64_t i = 0; i < count; ++i) {
    const Batch sample = dataset.get({count == 1 ? 0 : (dataset.size() - 1) * i / (count - 1)});
    for (const auto& [name, tensor] : sample) {
      // They say how a sample is read, Dataset::attention(), and not what it is.
      if (name == nn::kDocumentIds) continue;
      const std::string head = fmt::format("{} {} {}\n", name, c10::toString(tensor.scalar_type()),
                                           fmt::join(tensor.sizes(), ","));
      const at::Tensor values = tensor.contiguous();
      digest.update(head.data(), head.size());
      digest.update(values.data_ptr(), values.nbytes());
    }
  }
  return digest.finish();
}

std::string compared_content(const Dataset& dataset) {
  return digest_prefix(fingerprint(dataset, 256));
}

}  // namespace weft::data
