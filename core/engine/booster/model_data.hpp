// The data of a model, by what it reads.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weft/data/dataset.hpp"
#include "weft/model.hpp"

namespace weft {

namespace nn {
class TokenModel;
}

// Returns the model as one of tokens. Throws INVALID_ARGUMENT saying that `user` needs a vocabulary.
const nn::TokenModel& require_vocabulary(const Model& model, std::string_view user);

// Opens a data file for a model. `sequence_length`: of text and tokens; 0 is the model's longest. Throws
// INVALID_ARGUMENT for text or a sequence length given to a model that reads no tokens, for a length that the
// model does not take, and for a token outside its vocabulary.
std::shared_ptr<data::Dataset> open_dataset(const Model& model, const std::string& path,
                                            int64_t sequence_length, data::TokenType type);

}  // namespace weft
