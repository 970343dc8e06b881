#include "policies/chatglm/tiny_chatglm.hpp"

#include "base/text.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

Model tiny_chatglm(const std::string& keys, const std::string& precision, const std::string& architecture) {
  const std::string config =
      fmt::format(R"({{"model_type": "chatglm", "padded_vocab_size": 23, "seq_length": 9,
      "hidden_size": 24, "ffn_hidden_size": 20, "num_layers": 2, "num_attention_heads": 4, "kv_channels": 14,
      {}}})",
                  keys);
  return tiny_model(config, architecture, precision);
}

Trial chatglm_trial(const std::string& keys, const std::string& precision, const std::string& architecture) {
  return {
      .tolerance = trial_tolerance(precision),
      .model = [=](const JobOptions& options) { return tiny_chatglm(keys, options.precision, architecture); },
      .batch = [](int64_t step) { return gpt2_batch(6, step); }};
}

Trial padded_chatglm_trial(const std::string& keys, const std::string& precision) {
  Trial trial = chatglm_trial(keys, precision);
  trial.batch = [](int64_t step) {
    Batch batch = gpt2_batch(6, step);
    const at::Tensor mask = at::ones({6, 7}, at::kLong);
    for (int64_t row = 0; row < 5; ++row)
      row % 2 == 0 ? mask[row].narrow(0, 7 - row, row).zero_() : mask[row].narrow(0, 0, row).zero_();
    batch.at("labels").copy_(batch.at("input_ids")).masked_fill_(mask.eq(0), -100);
    batch.set("attention_mask", mask);
    return batch;
  };
  return trial;
}

}  // namespace weft::test
