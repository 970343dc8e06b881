#include "policies/t5/tiny_t5.hpp"

#include "support/temporary_folder.hpp"

namespace weft::test {

Model tiny_t5(const JobOptions& options, const char* architecture, const char* keys, double dropout) {
  const TemporaryFolder folder;
  folder.file("config.json", fmt::format(R"({{"model_type": "t5", "vocab_size": 23, "d_model": 12, "d_kv": 5,
      "d_ff": 16, "num_heads": 4, "num_layers": 2, "relative_attention_num_buckets": 8,
      "relative_attention_max_distance": 12, "dropout_rate": {}, "decoder_start_token_id": 0,
      "num_labels": 3, {}}})",
                                         dropout, keys));
  return Model::open(folder.path() + "/config.json", architecture, options.precision);
}

Batch t5_batch(std::string_view architecture, int64_t samples, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  const bool generates = architecture == kGeneration;
  Batch batch = {{"input_ids", at::randint(23, {samples, 9}, at::kLong)},
                 {"attention_mask", at::ones({samples, 9}, at::kLong)},
                 {"labels", at::randint(generates ? 23 : 3, {samples, generates ? 5 : 9}, at::kLong)}};
  batch.at("attention_mask").narrow(0, 0, samples / 2).narrow(1, 6, 3).zero_();
  batch.at("labels").narrow(0, samples / 2, samples - samples / 2).narrow(1, 2, 3).fill_(-100);
  return batch;
}

Trial t5_trial(const char* architecture, const char* keys, double tolerance) {
  return {.tolerance = tolerance,
          .model = [=](const JobOptions& options) { return tiny_t5(options, architecture, keys); },
          .batch = [=](int64_t step) { return t5_batch(architecture, 7, step); }};
}

JobOptions under(const std::string& strategy, const std::string& options, const std::string& precision) {
  JobOptions chosen;
  chosen.strategy = strategy;
  chosen.options = options;
  chosen.precision = precision;
  return chosen;
}

}  // namespace weft::test
