// `weft plan` estimates models that no rank could hold, so it runs them in shapes alone.
#include "train/command.hpp"

namespace weft::test {
namespace {

class Plan : public CommandTest {
 protected:
  // Returns the bytes of activations of a T5 with this feed-forward layer: 2 + 3 blocks, 4 samples of 16
  // tokens.
  int64_t activations(const std::string& feed_forward) const {
    const std::string config = folder_.file("t5.json", R"({"architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5", "vocab_size": 101, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_heads": 2,
        "num_layers": 2, "num_decoder_layers": 3, "decoder_start_token_id": 0,
        "feed_forward_proj": ")" + feed_forward + "\"}");
    const Output output = weft_succeeds({"plan", "--model", config, "--strategy", "torch_ddp", "--world-size",
                                         "2", "--batch-size", "4", "--sequence-length", "16", "--json"});
    return nlohmann::json::parse(output.out).at(0).at("bytes").at("activations").get<int64_t>();
  }
};

// ReLU saves its result, which the next layer saves too; SiLU saves its input beside that.
TEST_F(Plan, CountsWhatATypeOfActivationSaves) {
  EXPECT_EQ(activations("silu") - activations("relu"), (2 + 3) * 4 * 16 * 24 * 4);
}

TEST_F(Plan, ExplainsWhatItSplits) {
  const Output output = weft_succeeds(
      {"plan", "--model", config_, "--explain", "--strategy", "hybrid_parallel", "-o", "tp_size=2", "-o",
       "enable_sequence_parallelism=true", "-o", "sequence_parallelism_mode=split_gather"});
  EXPECT_NE(output.out.find("\nsplit       "), std::string::npos) << output.out;
  EXPECT_NE(output.out.find("ln_2"), std::string::npos) << output.out;
}

}  // namespace
}  // namespace weft::test
