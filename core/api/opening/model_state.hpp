// The private state of a Model.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/missing.hpp"
#include "labels/label_space.hpp"
#include "training/bindings.hpp"
#include "weft/data/text.hpp"
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
  // Makes a module of another configuration. Null for a model of an application's own.
  std::function<std::shared_ptr<nn::Model>(const Config& config)> make;
  std::string adapter;                     // of Model::adapt(); empty: there was none
  std::optional<data::LabelSpace> labels;  // that a training gave the model
  bool new_head = false;                   // the head begins with initial values, whatever the weights have
  std::string library;                     // identity of the model's library; empty for an application's own
  std::optional<Tokenizer> tokenizer;      // saved beside the weights
  // What packed documents attend to in a training that goes on.
  std::optional<data::PackedAttention> packed_attention;
  std::shared_ptr<Training> training;  // null before boost
  bool divided = false;                // split by ShardFormer, which gave it memory

  Bindings& bindings() const;  // of `training`, which must not be null
};

at::ScalarType precision_dtype(std::string_view precision);

}  // namespace weft
