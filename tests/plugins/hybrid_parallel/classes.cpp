#include "plugins/hybrid_parallel/classes.hpp"

#include "base/text.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

double tolerance_of(const std::string& precision) {
  return precision == "fp64" ? 1e-10 : 5e-5;
}

// 23 tokens and 3 labels: no number of ranks divides them.
Batch batch_of(const std::string& architecture, int64_t samples, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  const auto random = [](int64_t high, std::vector<int64_t> shape) {
    return at::randint(high, shape, at::kLong);
  };
  const at::Tensor ids = random(22, {samples, 7}) + 1;
  if (architecture.ends_with("ForSequenceClassification"))
    return {{"input_ids", ids}, {"labels", random(3, {samples})}};
  if (architecture.ends_with("ForTokenClassification"))
    return {{"input_ids", ids}, {"labels", random(3, {samples, 7})}};
  if (architecture.ends_with("ForQuestionAnswering"))
    return {{"input_ids", ids},
            {"start_positions", random(7, {samples})},
            {"end_positions", random(7, {samples})}};
  if (architecture == "GPT2DoubleHeadsModel")
    return {{"input_ids", random(23, {samples, 2, 7})},
            {"mc_token_ids", random(7, {samples, 2})},
            {"labels", random(23, {samples, 2, 7})},
            {"mc_labels", random(2, {samples})}};
  return gpt2_batch(samples, seed);
}

// Gives rows padding on the right and on the left. A loss over all positions gets it on the right only: what
// a position returns that attends to nothing is not defined.
Batch padded(const std::string& architecture, Batch batch) {
  const at::Tensor mask = at::ones({6, 7}, at::kLong);
  for (int64_t row = 0; row < 5; ++row)
    mask[row].narrow(0, row % 2 == 0 || architecture.ends_with("Answering") ? 7 - row : 0, row).fill_(0);
  batch.at("input_ids").masked_fill_(mask.eq(0), 0);
  if (const at::Tensor* labels = batch.find("labels"); labels != nullptr && labels->dim() == 2) {
    labels->masked_fill_(mask.eq(0), -100);
    labels->slice(1, 1).masked_fill_(mask.slice(1, 0, -1).eq(0), -100);  // predicted from padding
  }
  batch.set("attention_mask", mask);
  return batch;
}

}  // namespace

Trial gpt2_trial(const std::string& architecture, const std::string& precision) {
  // Added to the logits of every position, or every choice, alike.
  static const std::map<std::string, std::vector<std::string>> kWithoutGradient = {
      {"GPT2ForQuestionAnswering", {"qa_outputs.bias", "transformer.ln_f.bias"}},
      {"GPT2DoubleHeadsModel", {"multiple_choice_head.summary.bias"}}};
  const auto without = kWithoutGradient.find(architecture);
  return {
      .tolerance = tolerance_of(precision),
      .without_gradient = without == kWithoutGradient.end() ? std::vector<std::string>() : without->second,
      .model =
          [=](const JobOptions& options) {
            return tiny_gpt2(TinyGpt2{.architecture = architecture,
                                      .precision = options.precision,
                                      .width = 16,
                                      .heads = 4,
                                      .more = R"(, "num_labels": 3, "pad_token_id": 0,
                                                     "summary_first_dropout": 0.0,
                                                     "summary_proj_to_labels": true)"});
          },
      .batch = [=](int64_t step) { return batch_of(architecture, 6, step); }};
}

// 23 tokens and 3 labels: no number of ranks divides them. Biases of keys in fp64 only: what rounding adds to
// their small gradients is too much of them.
Model tiny_llama(const TinyLlama& llama, const std::string& precision) {
  const TemporaryFolder folder;
  folder.file("config.json",
              fmt::format(R"({{"model_type": "{}", {}"vocab_size": 23, "max_position_embeddings": 9,
      "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": {}, "head_dim": 16, "mlp_bias": true, "attention_bias": {},
      "tie_word_embeddings": {}, "pad_token_id": 20, "num_labels": 3, "initializer_range": 0.3}})",
                          llama.type, llama.more, llama.key_heads, precision == "fp64", llama.tied));
  return Model::open(folder.path() + "/config.json", llama.architecture, precision);
}

Batch llama_batch(const std::string& architecture, int64_t step) {
  Batch batch = gpt2_batch(6, step);
  batch.at("input_ids").narrow(1, 5, 2).fill_(20);
  if (architecture == "LlamaForSequenceClassification") batch.set("labels", at::randint(3, {6}, at::kLong));
  return batch;
}

Trial llama_trial(const TinyLlama& llama, const std::string& precision) {
  return {.tolerance = tolerance_of(precision),
          .model = [=](const JobOptions& options) { return tiny_llama(llama, options.precision); },
          .batch = [=](int64_t step) { return llama_batch(llama.architecture, step); }};
}

Model tiny_opt(const TinyOpt& opt, const std::string& precision) {
  const TemporaryFolder folder;
  folder.file("config.json",
              fmt::format(R"({{"model_type": "opt", "vocab_size": 23, "max_position_embeddings": 9,
      "hidden_size": 16, "ffn_dim": 20, "word_embed_proj_dim": 10, "num_hidden_layers": 2,
      "num_attention_heads": 4, "do_layer_norm_before": {}, "enable_bias": {}, "dropout": 0,
      "pad_token_id": 0, "num_labels": 3, "init_std": 0.3}})",
                          opt.norm_before, opt.biases));
  return Model::open(folder.path() + "/config.json", opt.architecture, precision);
}

Trial opt_trial(const TinyOpt& opt, const std::string& precision) {
  // Attention does not change if a number is added to all scores of a query.
  std::vector<std::string> without = {"model.decoder.layers.0.self_attn.k_proj.bias",
                                      "model.decoder.layers.1.self_attn.k_proj.bias"};
  if (opt.architecture == "OPTForQuestionAnswering")
    without.insert(without.end(),
                   {"qa_outputs.bias", opt.norm_before ? "model.decoder.final_layer_norm.bias"
                                                       : "model.decoder.layers.1.final_layer_norm.bias"});
  return {
      .tolerance = tolerance_of(precision),
      .without_gradient = without,
      .model = [=](const JobOptions& options) { return tiny_opt(opt, options.precision); },
      .batch = [=](int64_t step) { return padded(opt.architecture, batch_of(opt.architecture, 6, step)); }};
}

Model tiny_bloom(const TinyBloom& bloom, const std::string& precision) {
  const TemporaryFolder folder;
  folder.file("config.json",
              fmt::format(R"({{"model_type": "bloom", "vocab_size": 23, "hidden_size": 24, "n_layer": 2,
      "n_head": 12, "apply_residual_connection_post_layernorm": {}, "pad_token_id": 0, "num_labels": 3,
      "initializer_range": 0.3}})",
                          bloom.adds_to_normed));
  return Model::open(folder.path() + "/config.json", bloom.architecture, precision);
}

Trial bloom_trial(const TinyBloom& bloom, const std::string& precision) {
  std::vector<std::string> without;
  if (bloom.architecture == "BloomForQuestionAnswering")
    without = {"qa_outputs.bias", "transformer.ln_f.bias"};
  return {
      .tolerance = tolerance_of(precision),
      .without_gradient = without,
      .model = [=](const JobOptions& options) { return tiny_bloom(bloom, options.precision); },
      .batch =
          [=](int64_t step) { return padded(bloom.architecture, batch_of(bloom.architecture, 6, step)); }};
}

Tensors criterion_gradients(const World& world, const JobOptions& options, const std::string& architecture) {
  const Criterion criterion = [](const State& outputs, const Batch&) {
    const at::Tensor& hidden = outputs.at("last_hidden_state");
    return (hidden * at::linspace(-1, 1, hidden.size(2), hidden.options())).mean();
  };
  Model model =
      architecture == "LlamaModel" ? tiny_llama({"LlamaModel", 2, true}, options.precision)
      : architecture == "OPTModel" ? tiny_opt({"OPTModel", true, /*biases=*/false}, options.precision)
      : architecture == "BloomModel"
          ? tiny_bloom({"BloomModel"}, options.precision)
          : tiny_gpt2(TinyGpt2{
                .architecture = architecture, .precision = options.precision, .width = 16, .heads = 4});
  BoosterOptions chosen;
  chosen.strategy = options.strategy;
  chosen.options = options.options;
  chosen.precision = options.precision;
  Job job = Booster(chosen, world).boost(model, optim::SGD(model.parameters(), {.lr = 1}), criterion);
  job.accumulate_gradients({{"input_ids", gpt2_batch(4, 2).at("input_ids")}});
  return published_gradients(job);
}

}  // namespace weft::test
