// Rows with labels, and a small encoder that learns them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "command/command.hpp"
#include "command/word_tokenizer.hpp"

namespace weft::test {

namespace fs = std::filesystem;
using nlohmann::json;

inline constexpr const char* kWords[] = {"good", "fine", "bad",  "sad", "odd",
                                         "even", "the",  "film", "was", "and"};

inline std::string read_whole(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::vector<json> json_lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(json::parse(line));
  return lines;
}

struct Row {
  std::string text, label;
};

// Returns texts of 1 to 12 words, whose first word decides the label.
inline std::vector<Row> make_rows(int count, const std::vector<std::string>& labels, unsigned seed = 3) {
  std::mt19937 draw(seed);
  std::vector<Row> rows;
  for (int i = 0; i < count; ++i) {
    const size_t label = draw() % labels.size();
    std::string text = kWords[2 * label + draw() % 2];
    for (size_t more = draw() % 12; more > 0; --more) text += std::string(" ") + kWords[6 + draw() % 4];
    rows.push_back({text, labels[label]});
  }
  return rows;
}

inline std::string csv(const std::vector<Row>& rows) {
  std::string text = "label,text\n";
  for (const Row& row : rows) text += row.label + "," + row.text + "\n";
  return text;
}

class LabelCommand : public CommandTest {
 protected:
  void SetUp() override {
    fs::create_directories(in("bert"));
    folder_.file("bert/config.json",
                 R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
        "vocab_size": 14, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "max_position_embeddings": 16, "pad_token_id": 0, "initializer_range": 0.3,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})");
    folder_.file("bert/tokenizer.json", word_tokenizer({std::begin(kWords), std::end(kWords)}).dump());
    folder_.file("bert/tokenizer_config.json", R"({"pad_token": "[PAD]", "cls_token": "[CLS]"})");
    folder_.file("rows.csv", csv(make_rows(61, {"pos", "neg", "odd"})));
  }
  Words train(const Words& more, const std::string& model = "bert") const {
    Words words = {"train", "--model", in(model)};
    for (const auto& [flag, value] : {std::pair("--lr", "0.003"), std::pair("--strategy", "none")})
      if (std::find(more.begin(), more.end(), flag) == more.end()) words = words + Words{flag, value};
    return words + more;
  }
  Words on(const std::string& file, const Words& more = {}) const { return Words{"--data", in(file)} + more; }
  // Copies a model that knows the labels of rows.csv to in("out"). Trains it once for all tests.
  void copy_model_of_rows() const {
    static const TemporaryFolder folder;
    static const bool trained = [&] {
      expect_success(train(on("rows.csv", {"--epochs", "6", "--output", folder.path() + "/out"})));
      return true;
    }();
    ASSERT_TRUE(trained);
    fs::copy(folder.path() + "/out", in("out"), fs::copy_options::recursive);
  }
  json evaluate(const Words& more, const std::string& model = "out") const {
    return json::parse(expect_success(Words{"evaluate", "--model", in(model), "--json"} + more).out);
  }
  std::vector<json> predict(const Words& more, const std::string& model = "out") const {
    return json_lines(expect_success(Words{"predict", "--model", in(model)} + more).out);
  }
  json config(const std::string& model = "out") const {
    return json::parse(read_whole(in(model + "/config.json")));
  }
  void set_config(const std::string& model, const json& changes) const {
    json changed = config(model);
    changed.update(changes);
    std::ofstream(in(model + "/config.json")) << changed.dump();
  }
};

}  // namespace weft::test
