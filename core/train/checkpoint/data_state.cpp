#include "checkpoint/data_state.hpp"

#include "loader/fingerprint.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::checkpoint {

using nlohmann::json;

namespace {

constexpr int64_t kFingerprintSamples = 16;  // another number would not recognise the data of older states

}  // namespace

json data_to_json(const data::Loader& loader) {
  const data::Loader::Position position = loader.position();
  const data::LoaderOptions& options = loader.options();
  return {{"epoch", position.epoch},
          {"batch", position.batch},
          {"batch_size", options.batch_size},
          {"samples", loader.dataset().size()},
          {"objective", loader.dataset().objective()},
          {"attention", loader.dataset().attention()},
          {"fingerprint", data::fingerprint(loader.dataset(), kFingerprintSamples)},
          {"shuffle", options.shuffle},
          {"drop_last", options.drop_last},
          {"seed", options.seed}};
}

std::string saved_attention(const json& data, const nn::Model& model) {
  const auto saved = data.find("attention");
  if (saved != data.end()) return saved->is_string() ? saved->get<std::string>() : "";
  const nn::TokenModel* const tokens = nn::find_token_model(model);
  const bool apart =
      tokens != nullptr && tokens->positions_mark_documents() && !model.config().flag("use_cache", true);
  return apart ? "document" : "sample";
}

}  // namespace weft::checkpoint
