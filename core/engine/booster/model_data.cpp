#include "booster/model_data.hpp"

#include "base/text.hpp"
#include "weft/nn/token_model.hpp"

namespace weft {

const nn::TokenModel& require_vocabulary(const Model& model, std::string_view user) {
  if (const nn::TokenModel* tokens = nn::find_token_model(model.module())) return *tokens;
  fail(WEFT_INVALID_ARGUMENT, "{} has no vocabulary, which {} needs: give a causal language model",
       model.architecture(), user);
}

std::shared_ptr<data::Dataset> open_dataset(const Model& model, const std::string& path,
                                            int64_t sequence_length, data::TokenType type) {
  const bool is_tensors = path.ends_with(".safetensors");
  const nn::TokenModel* tokens = nn::find_token_model(model.module());
  if (tokens == nullptr) {
    if (sequence_length != 0)
      fail(WEFT_INVALID_ARGUMENT, "--sequence-length is {}, but {} reads no tokens; leave it out",
           sequence_length, model.architecture());
    if (!is_tensors)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: {} reads no tokens; give its inputs under their names in a .safetensors file", path,
           model.architecture());
    return data::tensors(path);
  }
  const int64_t longest = tokens->max_sequence_length();
  const int64_t length = sequence_length == 0 ? longest : sequence_length;
  if (!is_tensors) {
    if (length <= 0) fail(WEFT_INVALID_ARGUMENT, "--sequence-length is {}, must be positive", length);
    if (longest > 0 && length > longest)
      fail(WEFT_INVALID_ARGUMENT, "--sequence-length is {}, but {} takes at most {} positions", length,
           model.architecture(), longest);
  }
  return data::open(path, length, type, tokens->vocabularies());
}

}  // namespace weft
