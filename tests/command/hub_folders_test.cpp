// Model folders as the Hub has them: clones without git-lfs, configurations of old and of many versions of
// transformers, and weights that were saved from wrapped modules.
#include <gmock/gmock.h>

#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

class HubFolder : public CommandTest {
 protected:
  void SetUp() override { copy_trained_model(); }
  Words generate(const Words& more = {}) const {
    return Words{"generate", "--model", in("out"), "--prompt", "rank ", "--max-new-tokens", "6"} + more;
  }
  std::string generated(const Words& more) const { return expect_success(generate(more)).out; }
  // Writes generation_config.json.
  void set(const json& keys) const { folder_.file("out/generation_config.json", keys.dump()); }
  double loss(const std::string& model) const {
    return json::parse(expect_success({"evaluate", "--model", in(model), "--data", data_, "--json"}).out)
        .at("loss");
  }
};

// What a clone has in place of large files until git lfs pull.
TEST_F(HubFolder, SaysWhichFileIsAGitLfsPointer) {
  const auto expect_named = [&](const std::string& name) {
    folder_.file("out/" + name, kPointer);
    EXPECT_TRUE(refuses(generate(), 1, {name, "Git LFS pointer", "git lfs pull"})) << name;
    fs::remove(in("out/" + name));
  };
  expect_named("tokenizer.json");
  expect_named("generation_config.json");
  for (const char* weights : {"model.safetensors", "pytorch_model.bin", "model.safetensors.index.json",
                              "pytorch_model.bin.index.json"})
    expect_named(weights);
  folder_.file("out/model.safetensors.index.json",
               R"({"weight_map": {"transformer.wte.weight": "model-00001-of-00001.safetensors"}})");
  expect_named("model-00001-of-00001.safetensors");
  expect_named("config.json");
  folder_.file("samples.safetensors", kPointer);
  EXPECT_TRUE(refuses({"train", "--model", config_, "--data", in("samples.safetensors")}, 1,
                      {"samples.safetensors", "Git LFS pointer", "git lfs pull"}));
  for (const char* data : {"tokens.bin", "text.txt", "text.jsonl", "text.json"}) {
    folder_.file(data, kPointer);
    EXPECT_TRUE(refuses({"train", "--model", config_, "--data", in(data), "--sequence-length", "4"}, 1,
                        {data, "Git LFS pointer", "git lfs pull"}));
  }
}

TEST_F(HubFolder, MayHaveKeysOfSamplingThatAGreedySearchDoesNotRead) {
  const std::string greedy = generated({"--greedy"});
  for (const json& keys : {json{{"temperature", 0.0}}, json{{"top_p", 0.0}}, json{{"top_k", -1}},
                           json{{"min_p", 0.1}}, json{{"typical_p", 0.9}}, json{{"top_h", 0.4}},
                           json{{"eta_cutoff", 0.1}}, json{{"epsilon_cutoff", 0.1}}}) {
    set(keys);
    EXPECT_EQ(generated({"--greedy"}), greedy) << keys;
    EXPECT_TRUE(refuses(generate(), 1, {"out/generation_config.json: \"" + keys.begin().key() + "\" is"}))
        << keys;
  }
  set({{"temperature", 0.0}, {"top_k", 1}});
  EXPECT_TRUE(refuses(generate(), 1, {"must be positive", "--greedy"}));
  EXPECT_TRUE(refuses(generate({"--temperature", "-1"}), 1, {"--temperature is -1"}));
  EXPECT_EQ(generated({"--temperature", "0.5"}), greedy);
  // What a greedy search reads is checked.
  set({{"repetition_penalty", 0.0}});
  EXPECT_TRUE(refuses(generate({"--greedy"}), 1, {"generation_config.json: \"repetition_penalty\" is 0"}));
}

class HubWhisper : public HubFolder {
 protected:
  void SetUp() override {
    fs::create_directories(in("w"));
    std::vector<float> spectrum(12);
    for (size_t i = 0; i < spectrum.size(); ++i) spectrum[i] = 0.3F * static_cast<float>(i % 5);
    folder_.file("spectra.safetensors",
                 safetensors_bytes({{"input_features", float_tensor({1, 2, 6}, spectrum)}}));
    folder_.file("w/config.json", R"({"model_type": "whisper", "vocab_size": 30,
        "architectures": ["WhisperForConditionalGeneration"], "d_model": 12, "num_mel_bins": 2,
        "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_source_positions": 3, "max_target_positions": 12,
        "decoder_start_token_id": 4, "pad_token_id": 1})");
  }
  // Writes generation_config.json with "forced_decoder_ids".
  void force(const char* ids) const {
    json keys = {
        {"decoder_start_token_id", 4}, {"lang_to_id", {{"<|en|>", 7}}}, {"no_timestamps_token_id", 9}};
    if (ids != nullptr) keys["forced_decoder_ids"] = json::parse(ids);
    folder_.file("w/generation_config.json", keys.dump());
  }
  Words of(const Words& more = {}) const {
    return Words{"generate",
                 "--model",
                 in("w"),
                 "--inputs",
                 in("spectra.safetensors"),
                 "--allow-missing",
                 "--greedy",
                 "--max-new-tokens",
                 "6"} +
           more;
  }
};

// As in the file of each Whisper of several languages: the language is null, to be detected.
TEST_F(HubWhisper, LeavesTheTokensThatItsFileForcesToTheUser) {
  const Words given = {"--prompt-ids", "4,7,8,9"};
  force(nullptr);
  const std::string wanted = expect_success(of(given)).out;
  for (const char* ids :
       {"null", "[]", "[[1, null], [2, 8]]", "[[2, 8]]", "[[1, 7], [2, null]]", "[[1, 7]]"}) {
    force(ids);
    EXPECT_EQ(expect_success(of(given)).out, wanted) << ids;
  }
  for (const char* ids : {"[[1, null], [2, 8]]", "[[2, 8]]", "[[1, 7], [2, null]]", "[[1, 7], [3, 8]]"}) {
    force(ids);
    EXPECT_TRUE(
        refuses(of(), 1, {"language is to be detected", "null in \"forced_decoder_ids\"", "first tokens"}))
        << ids;
  }
  force("[[1, 7], [2, 8]]");
  EXPECT_EQ(expect_success(of()).out, wanted);
  for (const char* ids : {"3", "[[1]]", "[[1, \"en\"]]", "[[0, 4]]", "[[2, 8], [1, 7]]", "[[null, 7]]"}) {
    force(ids);
    EXPECT_TRUE(refuses(of(given), 1, {"generation_config.json: \"forced_decoder_ids\" is"})) << ids;
  }
}

// Files of 2019 have none: the family is that of the class.
TEST_F(HubFolder, MayLackItsModelType) {
  json config = json::parse(read_bytes(in("out/config.json")));
  ASSERT_EQ(config.at("model_type"), "gpt2");
  const auto first_loss = [&] {
    expect_success({"train", "--model", in("out"), "--data", data_, "--steps", "1", "-n", "2", "--strategy",
                    "hybrid_parallel", "-o", "tp_size=2", "--output", in("next"), "--metrics", in("m")});
    return read_metrics(in("m")).at(0).at("loss").get<double>();
  };
  const double wanted = first_loss();
  config.erase("model_type");
  folder_.file("out/config.json", config.dump());
  EXPECT_EQ(first_loss(), wanted);
  EXPECT_EQ(json::parse(read_bytes(in("next/config.json"))).at("model_type"), "gpt2");
  config["model_type"] = "bert";
  folder_.file("out/config.json", config.dump());
  EXPECT_TRUE(
      refuses({"evaluate", "--model", in("out"), "--data", data_}, 1, {"\"model_type\" is \"bert\""}));
}

// The state of a wrapped module has the wrapper in its names.
TEST_F(HubFolder, MayHaveNamesOfWrappedModules) {
  const double wanted = loss("out");
  const RawTensors tensors = read_safetensors(in("out/model.safetensors"));
  const auto renamed = [&](const std::string& front, const std::string& inside) {
    RawTensors changed;
    for (const auto& [name, tensor] : tensors) {
      std::string other = name;
      if (const size_t block = other.find("h.0."); block != std::string::npos)
        other.insert(block + 4, inside);
      changed[front + other] = tensor;
    }
    return changed;
  };
  for (const auto& [front, inside] : std::vector<std::pair<const char*, const char*>>{
           {"module.", ""},
           {"_orig_mod.", ""},
           {"module._orig_mod.", ""},
           {"_orig_mod.module.", ""},
           {"", "_orig_mod."},
           {"_fsdp_wrapped_module.", "_fsdp_wrapped_module._checkpoint_wrapped_module."}}) {
    folder_.file("out/model.safetensors", safetensors_bytes(renamed(front, inside)));
    EXPECT_EQ(loss("out"), wanted) << front << " " << inside;
  }
  RawTensors both = renamed("module.", "");
  both["transformer.wte.weight"] = tensors.at("transformer.wte.weight");
  folder_.file("out/model.safetensors", safetensors_bytes(both));
  EXPECT_TRUE(refuses({"evaluate", "--model", in("out"), "--data", data_}, 1,
                      {"module.transformer.wte.weight", "are one parameter", "wrappers"}));
}

// A folder with two checkpoints says what makes it one with one.
TEST_F(HubFolder, WithTwoCheckpointsIsReadWhenOneIsMovedAway) {
  const double wanted = loss("out");
  expect_success({"convert", in("out"), in("shards"), "--shard", "--size-per-shard", "1", "--weights-only"});
  for (const auto& file : fs::directory_iterator(in("shards")))
    if (file.path().filename().string().starts_with("model"))
      fs::copy_file(file.path(), in("out/") + file.path().filename().string());
  ASSERT_TRUE(fs::exists(in("out/model.safetensors.index.json")));
  EXPECT_TRUE(refuses({"evaluate", "--model", in("out"), "--data", data_}, 1,
                      {"model.safetensors, model.safetensors.index.json", "move the other"}));
  fs::rename(in("out/model.safetensors"), in("one.safetensors"));
  EXPECT_EQ(loss("out"), wanted);
  fs::rename(in("one.safetensors"), in("out/model.safetensors"));
  fs::remove(in("out/model.safetensors.index.json"));
  EXPECT_EQ(loss("out"), wanted);
}

}  // namespace
}  // namespace weft::test
