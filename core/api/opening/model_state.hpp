// The private state of a Model.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/missing.hpp"
#include "training/bindings.hpp"
#include "weft/model.hpp"
#include "weft/tokenizer.hpp"

namespace weft {

class Training;

// The file in a model folder that says how to generate, which a save carries on.
inline constexpr const char* kGenerationConfig = "generation_config.json";

struct Model::Shared {
  std::shared_ptr<nn::Model> module;
  std::string weights;            // folder or file to read them from; empty: initial values
  std::string generation_config;  // the text of the folder's generation_config.json; empty: it has none
  // Files beside config.json that belong to the model, by name: a save writes them too.
  std::map<std::string, std::string> companions;
  checkpoint::Missing missing = checkpoint::Missing::kAnything;  // what the weights may lack
  std::string precision;                                         // the precision of the module
  std::string library;                 // identity of the model's library; empty for an application's own
  std::optional<Tokenizer> tokenizer;  // saved beside the weights
  std::shared_ptr<Training> training;  // null before boost
  bool divided = false;                // split by ShardFormer, which gave it memory

  Bindings& bindings() const;  // of `training`, which must not be null
};

at::ScalarType precision_dtype(std::string_view precision);

}  // namespace weft
