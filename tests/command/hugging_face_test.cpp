// Exchanges model folders with Hugging Face transformers in both directions, if WEFT_ORACLE_PYTHON names a
// Python that has transformers. A family describes its models in tests/policies/<family>/hugging_face.json,
// or says "without" which models, and why:
//
// - "classes": the classes that Weft trains and transformers opens, each with its samples (inputs_of).
// - "weft": their configuration, or the path of one in samples/. One that names "architectures" is trained
//   on text first. A window must leave every padded position a key, because others are not defined.
// - "transformers": the configuration of a language model, or of a classifier of images, that transformers
//   makes and Weft opens.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "command/command.hpp"
#include "support/oracle_python.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

constexpr double kTolerance = 2e-5;  // the value in support/tolerances.hpp, which needs libtorch

// Returns the hugging_face.json of every family.
std::map<std::string, json> all_families() {
  std::map<std::string, json> families;
  for (const auto& folder : fs::directory_iterator(WEFT_FAMILY_TESTS)) {
    if (!folder.is_directory()) continue;
    std::ifstream file(folder.path() / "hugging_face.json");
    if (!file) throw std::runtime_error(folder.path().string() + " has no hugging_face.json");
    families[folder.path().filename()] = json::parse(file);
  }
  return families;
}

// Returns those of families whose models transformers has.
std::map<std::string, json> families() {
  std::map<std::string, json> families = all_families();
  std::erase_if(families, [](const auto& family) { return family.second.contains("without"); });
  return families;
}

TEST(HuggingFaceFiles, SayWhatEveryFamilyExchanges) {
  for (const auto& [family, file] : all_families()) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : file.items()) keys.push_back(key);
    EXPECT_THAT(keys, testing::AnyOf(testing::ElementsAre("without"),
                                     testing::ElementsAre("classes", "transformers", "weft")))
        << family;
    if (file.contains("without")) EXPECT_FALSE(file.at("without").get<std::string>().empty()) << family;
  }
  EXPECT_GE(families().size(), 11u);
}

class HuggingFace : public CommandTest {
 protected:
  void SetUp() override {
    WEFT_NEEDS_ORACLE();
    python_ = oracle_python();
  }
  RawTensors forward(const std::string& model, const std::string& inputs) const {
    expect_success({"forward", "--model", model, "--inputs", inputs, "--output", in("outputs.safetensors")});
    return read_safetensors(in("outputs.safetensors"));
  }
  std::string first_model(const std::string& family, const json& config) const;
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

// Returns four images of two channels with labels of two classes, or with masks of their 3 by 3 patches.
RawTensors images(bool masked) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> pixels(4 * 2 * 6 * 6);
  for (float& pixel : pixels) pixel = normal(random);
  std::vector<int64_t> masks(4 * 9);
  for (size_t i = 0; i < masks.size(); ++i) masks[i] = i % 4 == 1;
  RawTensors samples = {{"pixel_values", float_tensor({4, 2, 6, 6}, pixels)}};
  if (masked)
    samples["bool_masked_pos"] = int64_tensor({4, 9}, masks);
  else
    samples["labels"] = int64_tensor({4}, {1, 0, 0, 1});
  return samples;
}

// Adds token types of two and more sentences, and labels that say whether the second follows the first.
RawTensors with_sentences(RawTensors samples) {
  std::vector<int64_t> types(static_cast<size_t>(4 * 9));
  for (size_t i = 0; i < types.size(); ++i) types[i] = static_cast<int64_t>(i % 9 / 4);
  samples["token_type_ids"] = int64_tensor({4, 9}, types);
  samples["next_sentence_label"] = int64_tensor({4}, {1, 0, 0, 1});
  return samples;
}

// Returns four spectra of three bins and ten frames with labels of classes, or of tokens.
RawTensors spectra(const std::vector<int64_t>& shape, const std::vector<int64_t>& labels) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> values(4 * 3 * 10);
  for (float& value : values) value = normal(random);
  return {{"input_features", float_tensor({4, 3, 10}, values)}, {"labels", int64_tensor(shape, labels)}};
}

RawTensors inputs_of(const std::string& kind) {
  if (kind == "spectra with classes") return spectra({4}, {1, 0, 0, 1});
  if (kind == "spectra with tokens")
    return spectra({4, 5}, {7, 8, 9, 1, -100, 3, 3, 2, -100, -100, 12, 11, 10, 9, 8, 0, 1, 2, 3, 4});
  if (kind == "images with classes") return images(/*masked=*/false);
  if (kind == "masked images") return images(/*masked=*/true);
  const RawTensors samples = language_samples(4, 9);
  if (kind == "labels of classes") return with_classes(samples);
  if (kind == "choices") return with_choices(samples);
  if (kind == "sentences") return with_sentences(samples);
  if (kind != "tokens")
    throw std::runtime_error(
        "hugging_face.json: the samples of a class are \"" + kind +
        "\", must be \"tokens\", \"labels of classes\", \"choices\", \"sentences\", \"images with classes\", "
        "\"masked images\", \"spectra with classes\" or \"spectra with tokens\"");
  return samples;
}

// Returns the folder or file of the model that the classes of a family start from.
std::string HuggingFace::first_model(const std::string& family, const json& config) const {
  std::string path = in(family + ".json");
  if (config.is_string())
    path = std::string(WEFT_SAMPLES) + '/' + config.get<std::string>();
  else
    folder_.file(family + ".json", config.dump());
  if (!config.is_string() && !config.contains("architectures")) return path;
  expect_success({"train", "--model", path, "--data", data_, "--sequence-length", "32", "--steps", "1",
                  "--output", in(family)});
  randomise(in(family) + "/model.safetensors");
  return in(family);
}

// Writes a trained folder of each class, and Weft's outputs of it, for transformers to compare.
void HuggingFace::train_classes() const {
  fs::create_directories(in("classes"));
  for (const auto& [family, file] : families()) {
    const std::string model = first_model(family, file.at("weft"));
    for (const auto& [name, kind] : file.at("classes").items()) {
      const RawTensors inputs = inputs_of(kind);
      folder_.file("inputs.safetensors", safetensors_bytes(inputs));
      expect_success({"train", "--model", model, "--architecture", name, "--data", in("inputs.safetensors"),
                      "-n", "2", "--batch-size", "4", "--steps", "2", "--output", in("classes/" + name)});
      RawTensors oracle;
      for (const auto& [field, tensor] : inputs) oracle["input." + field] = tensor;
      for (const auto& [field, tensor] : forward(in("classes/" + name), in("inputs.safetensors")))
        oracle["output." + field] = tensor;
      folder_.file("classes/" + name + ".safetensors", safetensors_bytes(oracle));
    }
  }
}

// Starts transformers once for both directions, because starting it takes longest.
TEST_F(HuggingFace, AndWeftOpenEachOthersFolders) {
  train_classes();
  fs::create_directories(in("made"));
  const Output opened = launch::Process({python_, WEFT_TRAIN_TESTS "/hugging_face.py", in("classes"),
                                         WEFT_ORACLES, WEFT_FAMILY_TESTS, in("made")})
                            .finish();
  ASSERT_EQ(opened.exit_code, 0) << opened.error << opened.out;
  for (const char* output :
       {"logits", "mc_logits", "loss", "mc_loss", "encoder_last_hidden_state", "reconstruction"})
    EXPECT_THAT(opened.out, HasSubstr(output));
  for (const auto& [family, file] : families()) {
    const std::string model = "made/" + family;
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
