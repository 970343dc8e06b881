// What a family of rotary decoders may ask for and no shipped one does, in every way to share out work:
// rotary positions of a part of each head, and soft caps of scores and logits.
#include "plugins/support/sequence_modes.hpp"
#include "policies/llama/llama_trial.hpp"
#include "weft/nn/rotary_decoder.hpp"

namespace weft::test {

namespace {

struct Asked {
  double part = 0.25, score_cap = 0.7, logit_cap = 1.5;
  bool packed = false;
};

// The policy is that of Llama.
Trial asking_trial(const Asked& asked) {
  Trial trial = llama_trial({"LlamaForCausalLM", 2, false}, "fp64");
  trial.model = [=](const JobOptions& options) {
    const Config config = Config::parse(fmt::format(R"({{"model_type": "llama", "vocab_size": 23,
      "max_position_embeddings": 9, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 20,
      "initializer_range": 0.3, "partial_rotary_factor": {}}})",
                                                    asked.part),
                                        "asking");
    nn::RotaryDecoderConfig decoder;
    decoder.partial_rotary_factor = 1;
    decoder.read(config, "Llama", "llama");
    decoder.attention_scale = 0.4;
    decoder.attention_soft_cap = asked.score_cap;
    decoder.logit_soft_cap = asked.logit_cap;
    decoder.windows = {0, 4};
    return Model::adopt(nn::make_rotary_decoder(config, decoder, "Llama", "LlamaForCausalLM",
                                                precision_dtype(options.precision)));
  };
  if (asked.packed)
    trial.batch = [batch = trial.batch](int64_t step) {
      Batch rows = batch(step);
      rows.set("position_ids", at::tensor({0, 1, 2, 0, 1, 2, 3}, at::kLong).expand({6, 7}).contiguous());
      return rows;
    };
  return trial;
}

// Without that the comparison below would hold for layers that drop them.
TEST(DecoderOptions, EachChangeTheLoss) {
  const auto loss = [](const Asked& asked) {
    const Trial trial = asking_trial(asked);
    return outcome_of(one_rank(), {.precision = "fp64"}, trial).loss;
  };
  const double all = loss({});
  for (const Asked& less :
       {Asked{.part = 1}, Asked{.score_cap = 0}, Asked{.logit_cap = 0}, Asked{.packed = true}})
    EXPECT_GT(std::abs(loss(less) - all), 1e-3);
}

TEST(DecoderOptions, HaveTheGradientsOfOneRank) {
  for (const int ranks : {2, 4}) {
    std::vector<Case> cases;
    const auto add = [&](const JobOptions& options, bool packed, const std::string& name) {
      cases.push_back({options, asking_trial({.packed = packed}), name + (packed ? ", packed" : "")});
    };
    for (const Split& split : kSplits)
      if (split.ranks == ranks)
        for (const bool packed : {false, true})
          add(laid_out(split), packed, std::string(split.mode) + " " + split.axes);
    for (const Split& split : kWholes)
      if (split.ranks == ranks) add(laid_out(split), false, split.axes);
    if (ranks == 2)
      add({.strategy = "hybrid_parallel",
           .options = R"({"pp_size": 2, "num_microbatches": 3})",
           .precision = "fp64"},
          false, "stages");
    expect_gradients_of_one_rank(cases, ranks);
  }
}

}  // namespace

}  // namespace weft::test
