// What a training state says about the data of its training.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "weft/data/dataset.hpp"
#include "weft/nn/model.hpp"

namespace weft::checkpoint {

// Returns "data" of state.json: the position of the loader, and what it reads. Reads samples.
nlohmann::json data_to_json(const data::Loader& loader);

// Returns what packed documents attended to, by "data" of such a state: "document", "sample" or "". A state
// of an earlier version does not say it. Attention stayed inside documents then only in a model whose
// positions mark them, with "use_cache" false.
std::string saved_attention(const nlohmann::json& data, const nn::Model& model);

}  // namespace weft::checkpoint
