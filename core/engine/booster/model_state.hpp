// The inside of a weft::Model.
#pragma once

#include <memory>
#include <string>

#include "training/bindings.hpp"
#include "weft/model.hpp"

namespace weft {

class Training;

struct Model::Shared {
  std::shared_ptr<nn::Model> module;
  std::string weights;                 // folder or file that holds them; empty: initial values
  std::string precision;               // that the module was made with
  std::string library;                 // identity of the model's library; empty for an application's own
  std::shared_ptr<Training> training;  // null before boost
  bool divided = false;                // by ShardFormer, which gave it memory

  Bindings& bindings() const;  // of `training`, which must be there
};

at::ScalarType precision_dtype(std::string_view precision);

}  // namespace weft
