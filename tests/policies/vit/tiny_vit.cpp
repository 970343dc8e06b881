#include "policies/vit/tiny_vit.hpp"

#include "base/text.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

Model tiny_vit(const TinyVit& vit, const std::string& precision) {
  const std::string config =
      fmt::format(R"({{"model_type": "vit", "hidden_size": 12, "num_attention_heads": 4,
      "num_hidden_layers": 2, "intermediate_size": 20, "num_channels": 2, "hidden_dropout_prob": {0},
      "attention_probs_dropout_prob": {0}, "num_labels": 3, "initializer_range": 0.3, "qkv_bias": {1}, {2}}})",
                  vit.dropout, vit.biases, vit.keys);
  return tiny_model(config, vit.architecture, precision);
}

Batch vit_batch(const TinyVit& vit, int64_t samples, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  Batch batch = {{"pixel_values", at::randn({samples, 2, vit.height, vit.width})}};
  if (vit.architecture == kClassifier) batch.set("labels", at::randint(3, {samples}, at::kLong));
  if (vit.architecture == kMasked) {
    const int64_t patches = vit.height / 2 * (vit.width / 2);
    const at::Tensor counts = at::arange(samples).mul(5).remainder(patches).add(1).unsqueeze(1);
    batch.set("bool_masked_pos", at::rand({samples, patches}).argsort(1, false).lt(counts).to(at::kLong));
  }
  return batch;
}

Trial vit_trial(const TinyVit& vit, const std::string& precision) {
  // Attention does not change if a number is added to all scores of a query.
  std::vector<std::string> without;
  for (int layer = 0; vit.biases && layer < 2; ++layer)
    without.push_back(fmt::format("{}encoder.layer.{}.attention.attention.key.bias",
                                  vit.architecture == "ViTModel" ? "" : "vit.", layer));
  return {.tolerance = trial_tolerance(precision),
          .without_gradient = without,
          .model = [=](const JobOptions& options) { return tiny_vit(vit, options.precision); },
          .batch = [=](int64_t step) { return vit_batch(vit, 7, step); }};
}

}  // namespace weft::test
