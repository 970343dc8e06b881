// Exchanges model folders with Hugging Face transformers in both directions, if WEFT_ORACLE_PYTHON names a
// Python that has transformers.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "support/oracle_python.hpp"
#include "train/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr double kTolerance = 2e-5;  // the value in support/tolerances.hpp, which needs libtorch

constexpr const char* kT5 = R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"],
    "vocab_size": 256, "d_model": 24, "d_kv": 10, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3,
    "num_heads": 3, "feed_forward_proj": "gated-gelu", "dropout_rate": 0.0, "pad_token_id": 0,
    "decoder_start_token_id": 0})";
constexpr const char* kOpt = R"({"model_type": "opt", "architectures": ["OPTForCausalLM"],
    "vocab_size": 256, "hidden_size": 24, "word_embed_proj_dim": 10, "ffn_dim": 40, "num_hidden_layers": 2,
    "num_attention_heads": 3, "do_layer_norm_before": false, "dropout": 0.0, "pad_token_id": 0,
    "max_position_embeddings": 32})";

constexpr const char* kBloom = R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"],
    "vocab_size": 256, "hidden_size": 24, "n_layer": 2, "n_head": 3})";

constexpr const char* kDecoder = R"({{"model_type": "{}", "vocab_size": 256, "hidden_size": 24,
    "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "max_position_embeddings": 64, "initializer_range": 0.3, {}}})";

class HuggingFace : public CommandTest {
 protected:
  void SetUp() override {
    WEFT_NEEDS_ORACLE();
    python_ = oracle_python();
  }
  RawTensors forward(const std::string& model, const std::string& inputs) const {
    weft_succeeds({"forward", "--model", model, "--inputs", inputs, "--output", in("outputs.safetensors")});
    return read_safetensors(in("outputs.safetensors"));
  }
  void train_classes() const;

  std::string python_;
};

// Gives every weight and bias random values, so that the test notices a missing or swapped one.
void randomise(const std::string& path) {
  RawTensors tensors = read_safetensors(path);
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.3F);
  for (auto& [name, tensor] : tensors) {
    std::vector<float> values = float_values(tensor);
    for (float& value : values) value += normal(random);
    tensor = float_tensor(tensor.shape, values);
  }
  std::ofstream(path, std::ios::binary) << safetensors_bytes(tensors);
}

// Replaces labels of tokens by labels of two classes.
RawTensors with_classes(RawTensors samples) {
  const std::string& labels = samples.at("labels").bytes;
  std::vector<int64_t> values(labels.size() / sizeof(int64_t));
  std::memcpy(values.data(), labels.data(), labels.size());
  for (int64_t& value : values) value = value < 0 ? value : value % 2;
  samples["labels"] = int64_tensor(samples.at("labels").shape, values);
  return samples;
}

RawTensors with_choices(RawTensors samples) {
  for (auto& [name, tensor] : samples) tensor.shape = {2, 2, 9};
  samples["mc_token_ids"] = int64_tensor({2, 2}, {8, 1, 4, 0});
  samples["mc_labels"] = int64_tensor({2}, {1, 0});
  return samples;
}

// Writes a trained folder of each class, and Weft's outputs of it, for transformers to compare.
void HuggingFace::train_classes() const {
  copy_trained_model();
  weft_succeeds({"train", "--model", WEFT_SAMPLES "/llama_bytes/config.json", "--data", data_,
                 "--sequence-length", "32", "--steps", "1", "--save", in("llama")});
  folder_.file("t5.json", kT5);
  folder_.file("opt.json", kOpt);
  folder_.file("bloom.json", kBloom);
  for (const std::string family : {"bloom", "opt", "t5"})
    weft_succeeds({"train", "--model", in(family + ".json"), "--data", data_, "--sequence-length", "32",
                   "--steps", "1", "--save", in(family)});
  for (const char* folder : {"bloom", "out", "llama", "opt", "t5"})
    randomise(in(folder) + "/model.safetensors");
  // A window that leaves every padded position a key, because others are not defined.
  folder_.file("mistral.json", fmt::format(kDecoder, "mistral", R"("sliding_window": 8)"));
  folder_.file("qwen2.json", fmt::format(kDecoder, "qwen2", R"("use_sliding_window": false)"));
  folder_.file("qwen3.json", fmt::format(kDecoder, "qwen3", R"("use_sliding_window": true,
      "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 8)"));
  const RawTensors samples = language_samples(4, 9);
  struct Class {
    std::string name, folder;
    RawTensors inputs;
  };
  const Class classes[] = {{"GPT2LMHeadModel", "out", samples},
                           {"GPT2ForTokenClassification", "out", with_classes(samples)},
                           {"GPT2DoubleHeadsModel", "out", with_choices(samples)},
                           {"LlamaForCausalLM", "llama", samples},
                           {"OPTForCausalLM", "opt", samples},
                           {"BloomForCausalLM", "bloom", samples},
                           {"MistralForCausalLM", "mistral.json", samples},
                           {"Qwen2ForTokenClassification", "qwen2.json", with_classes(samples)},
                           {"Qwen3ForCausalLM", "qwen3.json", samples},
                           {"T5ForConditionalGeneration", "t5", samples}};
  fs::create_directories(in("classes"));
  for (const auto& [name, folder, inputs] : classes) {
    folder_.file("inputs.safetensors", safetensors_bytes(inputs));
    weft_succeeds({"train", "--model", in(folder), "--architecture", name, "--data", in("inputs.safetensors"),
                   "-n", "2", "--batch-size", "4", "--steps", "2", "--save", in("classes/" + name)});
    RawTensors oracle;
    for (const auto& [field, tensor] : inputs) oracle["input." + field] = tensor;
    for (const auto& [field, tensor] : forward(in("classes/" + name), in("inputs.safetensors")))
      oracle["output." + field] = tensor;
    folder_.file("classes/" + name + ".safetensors", safetensors_bytes(oracle));
  }
}

// Starts transformers once for both directions, because starting it takes longest.
TEST_F(HuggingFace, AndWeftOpenEachOthersFolders) {
  train_classes();
  fs::create_directories(in("made"));
  const Output opened =
      launch::Process({python_, WEFT_TRAIN_TESTS "/hugging_face.py", in("classes"), WEFT_ORACLES, in("made")})
          .finish();
  ASSERT_EQ(opened.exit_code, 0) << opened.error << opened.out;
  for (const char* output : {"logits", "mc_logits", "loss", "mc_loss", "encoder_last_hidden_state"})
    EXPECT_THAT(opened.out, HasSubstr(output));
  for (const std::string model : {"made/bloom", "made/gpt2", "made/llama", "made/mistral", "made/opt",
                                  "made/qwen2", "made/qwen3", "made/t5"}) {
    const RawTensors expected = read_safetensors(in(model + "/expected.safetensors"));
    for (const std::string& folder : {model + "/sharded", model + "/torch"}) {
      const RawTensors outputs = forward(in(folder), in(model + "/inputs.safetensors"));
      for (const auto& [name, tensor] : expected)
        EXPECT_LE(relative_difference(float_values(outputs.at(name)), float_values(tensor)), kTolerance)
            << folder << " " << name;
    }
  }
}

}  // namespace
}  // namespace weft::test
