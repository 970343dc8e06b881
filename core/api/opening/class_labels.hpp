// The labels of a model for data of one folder per class.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "weft/model.hpp"

namespace weft {

struct ClassLabels {
  // By the name of the class, as label2id and id2label in config.json have them; empty if these give classes
  // no names.
  std::map<std::string, int64_t> label_of;
  int64_t count = 0;  // of all labels
};

// Returns nothing unless the model has a loss of one label per sample. Throws INVALID_ARGUMENT, which names
// the folder and the field `input`, for a model whose labels are no classes.
std::optional<ClassLabels> class_labels(const Model& model, const std::string& path, std::string_view input);

}  // namespace weft
