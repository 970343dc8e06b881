// Folders of images for a ViT: what its files say about labels and pixels, and what a save keeps of them.
#include <filesystem>
#include <fstream>

#include "base/text.hpp"
#include "opening/model_data.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/nn/batch_fields.hpp"
#include "weft/nn/images.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

// A grey PNG image of one black pixel.
constexpr unsigned char kPixel[] = {
    0x89, 'P',  'N',  'G',  '\r', '\n', 0x1a, '\n', 0,    0,    0,    13,  'I',  'H',  'D',  'R',  0,
    0,    0,    1,    0,    0,    0,    1,    8,    0,    0,    0,    0,   0x3a, 0x7e, 0x9b, 0x55, 0,
    0,    0,    10,   'I',  'D',  'A',  'T',  0x78, 0x9c, 0x63, 0x60, 0,   0,    0,    2,    0,    1,
    0x48, 0xaf, 0xa4, 0x71, 0,    0,    0,    0,    'I',  'E',  'N',  'D', 0xae, 0x42, 0x60, 0x82};

class VitImages : public testing::Test {
 protected:
  fs::path root() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root() / name).parent_path());
    std::ofstream(root() / name, std::ios::binary) << text;
  }
  void write_classes(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      write(fmt::format("images/{}/0.png", name),
            std::string(reinterpret_cast<const char*>(kPixel), sizeof(kPixel)));
  }
  Model model(const std::string& keys, const char* architecture = "ViTForImageClassification") const {
    write("model/config.json",
          fmt::format(R"({{"model_type": "vit", "hidden_size": 12, "num_attention_heads": 4,
              "num_hidden_layers": 1, "intermediate_size": 20, "image_size": 8, "patch_size": 4, {}}})",
                      keys));
    return Model::open((root() / "model").string(), architecture);
  }
  std::shared_ptr<data::Dataset> open(const Model& model) {
    return open_images(model, (root() / "images").string(), {}, own_name,
                       [this](const std::string& line) { notes_ += line; });
  }
  std::string notes_;

 private:
  TemporaryFolder folder_;
};

TEST_F(VitImages, RefusesClassesThatAreNotTheModels) {
  write_classes({"cat", "dog", "owl"});
  EXPECT_ERROR(open(model(R"("num_labels": 2)")), WEFT_INVALID_ARGUMENT, "\"owl\" is label 2 of 3 classes",
               "2 labels");
  EXPECT_ERROR(open(model(R"("id2label": {"0": "cat", "1": "dog", "2": "bee"})")), WEFT_INVALID_ARGUMENT,
               "\"owl\" is no class of the model");
  EXPECT_ERROR(open(model(R"("id2label": {"0": "cat", "1": "dog"}, "label2id": {"cat": 1, "dog": 0})")),
               WEFT_INVALID_ARGUMENT, "two labels");
  EXPECT_ERROR(open(model(R"("num_labels": 1)")), WEFT_INVALID_ARGUMENT, "a regression");
  EXPECT_ERROR(open(model(R"("num_labels": 3, "problem_type": "multi_label_classification")")),
               WEFT_INVALID_ARGUMENT, "multi_label_classification");
}

TEST_F(VitImages, TakesLabelsFromTheConfigurationOrTheOrderOfNames) {
  write_classes({"cat", "dog"});
  const auto labels = [&](const std::string& keys) {
    const at::Tensor found = open(model(keys))->get({0, 1}).at(nn::kLabels);
    return std::vector<int64_t>(found.const_data_ptr<int64_t>(), found.const_data_ptr<int64_t>() + 2);
  };
  EXPECT_EQ(labels(R"("id2label": {"0": "dog", "1": "eel", "2": "cat"})"), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(labels(R"("id2label": {"0": "LABEL_0", "1": "LABEL_1"})"), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(labels(R"("num_labels": 5)"), (std::vector<int64_t>{0, 1}));
  EXPECT_FALSE(open(model(R"("encoder_stride": 4)", "ViTForMaskedImageModeling"))->get({0}).has(nn::kLabels));
}

TEST_F(VitImages, ProcessesImagesAsTheFileBesideTheConfigurationSays) {
  write_classes({"a", "b"});
  const at::Tensor plain = open(model(R"("num_channels": 1)"))->get({0}).at(nn::kPixels);
  EXPECT_EQ(plain.sizes().vec(), (std::vector<int64_t>{1, 1, 8, 8}));
  EXPECT_EQ(plain.min().item<double>(), -1);
  EXPECT_NE(notes_.find("resized to 8 x 8"), std::string::npos) << notes_;
  notes_.clear();
  write("model/preprocessor_config.json",
        R"({"image_processor_type": "ViTImageProcessor", "size": 8, "do_normalize": false})");
  const at::Tensor pixels = open(model(R"("num_channels": 3)"))->get({0}).at(nn::kPixels);
  EXPECT_EQ(pixels.sizes().vec(), (std::vector<int64_t>{1, 3, 8, 8}));
  EXPECT_EQ(pixels.max().item<double>(), 0);
  EXPECT_EQ(notes_, "");
  write("model/preprocessor_config.json", R"({"size": 12})");
  EXPECT_ERROR(open(model(R"("num_channels": 3)")), WEFT_INVALID_ARGUMENT, "preprocessor_config.json",
               "12 x 12", "interpolate_pos_encoding");
  write("model/preprocessor_config.json", R"({"image_processor_type": "BeitImageProcessor", "size": 8})");
  EXPECT_ERROR(open(model(R"("num_channels": 3)")), WEFT_UNIMPLEMENTED, "BeitImageProcessor");
}

TEST_F(VitImages, RefusesTextAndNamesFoldersInstead) {
  write("corpus.txt", "some text");
  EXPECT_ERROR(open_dataset(model(R"("num_labels": 2)"), (root() / "corpus.txt").string(), 0,
                            data::TokenType::kUint16, own_name),
               WEFT_INVALID_ARGUMENT, "does not read text alone", "a folder of images per class");
}

}  // namespace
}  // namespace weft::test
