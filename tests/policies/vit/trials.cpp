#include "policies/vit/trials.hpp"

#include "support/temporary_folder.hpp"

namespace weft::test {

Model tiny_vit(const JobOptions& options, const TinyVit& vit) {
  const TemporaryFolder folder;
  folder.file("config.json",
              fmt::format(R"({{"model_type": "vit", "hidden_size": 12, "num_attention_heads": 4,
      "num_hidden_layers": 2, "intermediate_size": 20, "num_channels": 2, "hidden_dropout_prob": {0},
      "attention_probs_dropout_prob": {0}, "num_labels": 3, "initializer_range": 0.3, {1}}})",
                          vit.dropout, vit.keys));
  return Model::open(folder.path() + "/config.json", vit.architecture, options.precision);
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
  // Added to the scores of every key alike.
  std::vector<std::string> without;
  for (const char* layer : {"0", "1"})
    without.push_back(fmt::format("vit.encoder.layer.{}.attention.attention.key.bias", layer));
  return {.tolerance = precision == "fp64" ? 1e-10 : 5e-5,
          .without_gradient = without,
          .model = [=](const JobOptions& options) { return tiny_vit(options, vit); },
          .batch = [=](int64_t step) { return vit_batch(vit, 7, step); }};
}

Tensors vit_criterion_gradients(const World& world, const JobOptions& options) {
  const Criterion criterion = [](const State& outputs, const Batch&) {
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (const auto& [name, output] : outputs)
      sum = sum + (output * at::linspace(-1, 1, output.size(-1), output.options())).mean();
    return sum;
  };
  const TinyVit vit = {"ViTModel"};
  Model model = tiny_vit(options, vit);
  BoosterOptions chosen;
  chosen.strategy = options.strategy;
  chosen.options = options.options;
  chosen.precision = options.precision;
  Job job = Booster(chosen, world).boost(model, optim::SGD(model.parameters(), {.lr = 1}), criterion);
  job.accumulate_gradients(vit_batch(vit, 4, 2));
  Tensors gradients = published_gradients(job);
  std::erase_if(gradients, [](const auto& item) { return item.first.ends_with("key.bias"); });
  return gradients;
}

}  // namespace weft::test
