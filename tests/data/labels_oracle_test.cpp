// The batches of texts with labels, against those of transformers' tokenizers and collator.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/text_fixture.hpp"
#include "labels/label_space.hpp"
#include "labels/labelled_rows.hpp"
#include "labels/labelled_texts.hpp"
#include "labels/text_encoding.hpp"
#include "support/oracle_python.hpp"

namespace weft::data {
namespace {

using nlohmann::json;

class LabelsOracle : public testing::Test {
 protected:
  void SetUp() override {
    WEFT_NEEDS_ORACLE();
    const std::string command = test::oracle_python() + " " WEFT_LABELS_ORACLE " " + folder_.path();
    ASSERT_EQ(std::system((command + " 2> " + folder_.path() + "/log").c_str()), 0) << command;
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  test::TemporaryFolder folder_;
};

TEST_F(LabelsOracle, SequencesAreThoseOfTransformers) {
  int compared = 0, types = 0;
  for (const std::string family : {"bert", "opt", "llama"})
    for (const std::string file : {"rows.csv", "pairs.jsonl"}) {
      const std::string folder = in(family + "/" + file.substr(0, file.find('.')));
      std::ifstream opened(folder + "/expected.json");
      const json expected = json::parse(opened);
      const bool pairs = file == "pairs.jsonl";
      RowReading reading;
      if (pairs) reading.columns = {"first", "second", "label"};
      const LabelledRows rows = read_labelled_rows({in(file)}, reading);
      const LabelSpace space = label_space_of(rows, {});
      const TextEncoding encoding(Tokenizer::open(folder), pairs, 20, {});
      int64_t cut = 0;
      size_t row = 0;
      for (const json& batch : expected.at("batches"))
        for (size_t i = 0; i < batch.at("input_ids").size(); ++i, ++row) {
          const LabelledRow& own = rows.rows.at(row);
          const EncodedSequence found =
              pairs ? encoding.encode_pair(own.text, own.second_text) : encoding.encode(own.text);
          cut += found.is_cut ? 1 : 0;
          const auto length = std::ssize(found.ids);
          const auto mask = batch.at("attention_mask")[i].get<Ids>();
          EXPECT_EQ(std::accumulate(mask.begin(), mask.end(), int64_t{0}), length);
          auto ids = batch.at("input_ids")[i].get<Ids>();
          // Behind them there is padding alone.
          for (size_t at = found.ids.size(); at < ids.size(); ++at) EXPECT_EQ(ids[at], encoding.padding());
          ids.resize(found.ids.size());
          EXPECT_EQ(Ids(found.ids.begin(), found.ids.end()), ids) << folder << " " << row;
          if (batch.contains("token_type_ids")) {
            auto wanted = batch.at("token_type_ids")[i].get<Ids>();
            wanted.resize(found.ids.size());
            Ids own_types(found.types.begin(), found.types.end());
            own_types.resize(found.ids.size());
            EXPECT_EQ(own_types, wanted) << folder << " " << row;
            types += own_types.back() == 1 ? 1 : 0;
          }
          EXPECT_EQ(space.classes_of(own, rows), (Ids{batch.at("labels")[i].get<int64_t>()}));
          ++compared;
        }
      EXPECT_EQ(cut, expected.at("truncated").get<int64_t>()) << folder;
    }
  EXPECT_EQ(compared, 6 * 11);
  EXPECT_EQ(types, 11);
}

TEST_F(LabelsOracle, TagsOfTokensAreThoseOfTransformers) {
  int none = 0;
  for (const std::string family : {"bert", "llama", "t5"}) {
    std::ifstream opened(in(family + "/tags/expected.json"));
    const json expected = json::parse(opened);
    RowReading reading;
    reading.columns.of_words = true;
    const LabelledRows rows = read_labelled_rows({in("tags.jsonl")}, reading);
    const LabelSpace space = label_space_of(rows, {});
    const TextEncoding encoding(Tokenizer::open(in(family + "/tags")), false, 20, {});
    for (const std::string subwords : {"first", "all"}) {
      size_t row = 0;
      for (const json& batch : expected.at(subwords).at("batches"))
        for (size_t i = 0; i < batch.at("input_ids").size(); ++i, ++row) {
          const LabelledRow& own = rows.rows.at(row);
          LabelledSample sample;
          sample.sequence = encoding.encode_words(own.words, sample.words);
          auto ids = batch.at("input_ids")[i].get<Ids>();
          ids.resize(sample.sequence.ids.size());
          EXPECT_EQ(Ids(sample.sequence.ids.begin(), sample.sequence.ids.end()), ids) << family << " " << row;
          auto labels = batch.at("labels")[i].get<Ids>();
          for (size_t at = ids.size(); at < labels.size(); ++at) EXPECT_EQ(labels[at], -100);
          labels.resize(ids.size());
          EXPECT_EQ(token_labels(sample, space.classes_of(own, rows), space.names, subwords == "all",
                                 encoding.ids_behind()),
                    labels)
              << family << " " << row << " " << subwords;
          none += std::count(sample.words.begin(), sample.words.end(), -1) > 0 ? 1 : 0;
        }
    }
  }
  EXPECT_GT(none, 10);
}

// Tags are padded on the left then, and texts on the right.
TEST_F(LabelsOracle, BatchesOfTokenizersThatPadAndTruncateOnTheLeftAreThoseOfTransformers) {
  int padded = 0;
  const auto compare = [&](const std::string& folder, const json& batches, LabelledTextOptions options,
                           const TextEncoding& encoding, std::vector<LabelledSample> samples) {
    ASSERT_TRUE(encoding.pads_left());
    options.padding = encoding.padding();
    options.pads_left = options.form == LabelForm::kTokens;
    options.token_types = batches[0].contains("token_type_ids");
    const LabelledTexts texts(std::move(samples), options, folder);
    std::vector<int64_t> indices;
    for (const json& batch : batches) {
      indices.resize(batch.at("input_ids").size());
      std::iota(indices.begin(), indices.end(), indices.empty() ? 0 : indices.front());
      const Batch found = texts.get(indices);
      ASSERT_EQ(found.size(), batch.size()) << folder;
      for (const auto& [name, rows] : batch.items()) {
        Ids wanted;
        for (const json& row : rows)
          for (const json& value : row.is_array() ? row : json::array({row})) wanted.push_back(value);
        EXPECT_EQ(values(found.at(name)), wanted) << folder << " " << name;
      }
      padded += values(found.at("attention_mask"))[0] == 0 ? 1 : 0;
      indices.front() += std::ssize(indices);
    }
  };
  for (const std::string family : {"bert", "opt", "llama"})
    for (const std::string file : {"rows.csv", "pairs.jsonl"}) {
      const std::string folder = in(family + "/" + file.substr(0, file.find('.')) + "_left");
      std::ifstream opened(folder + "/expected.json");
      const json expected = json::parse(opened);
      const bool pairs = file == "pairs.jsonl";
      RowReading reading;
      if (pairs) reading.columns = {"first", "second", "label"};
      const LabelledRows rows = read_labelled_rows({in(file)}, reading);
      const LabelSpace space = label_space_of(rows, {});
      const TextEncoding encoding(Tokenizer::open(folder), pairs, 20, {});
      std::vector<LabelledSample> samples;
      for (const LabelledRow& row : rows.rows) {
        LabelledSample& sample = samples.emplace_back();
        sample.sequence = pairs ? encoding.encode_pair(row.text, row.second_text) : encoding.encode(row.text);
        sample.classes = space.classes_of(row, rows);
      }
      EXPECT_GT(expected.at("truncated"), 3);
      compare(folder, expected.at("batches"), {.form = LabelForm::kClass}, encoding, std::move(samples));
    }
  for (const std::string family : {"bert", "llama", "t5"})
    for (const std::string subwords : {"first", "all"}) {
      const std::string folder = in(family + "/tags_left");
      std::ifstream opened(folder + "/expected.json");
      const json expected = json::parse(opened);
      RowReading reading;
      reading.columns.of_words = true;
      const LabelledRows rows = read_labelled_rows({in("tags.jsonl")}, reading);
      const LabelSpace space = label_space_of(rows, {});
      // As a Llama without a token for padding is padded there.
      const TextEncoding encoding(Tokenizer::open(folder), false, 20, 0);
      std::vector<LabelledSample> samples;
      for (const LabelledRow& row : rows.rows) {
        LabelledSample& sample = samples.emplace_back();
        sample.sequence = encoding.encode_words(row.words, sample.words);
        sample.classes = token_labels(sample, space.classes_of(row, rows), space.names, subwords == "all",
                                      encoding.ids_behind());
      }
      compare(folder, expected.at(subwords).at("batches"), {.form = LabelForm::kTokens}, encoding,
              std::move(samples));
    }
  EXPECT_GT(padded, 10);
}

}  // namespace
}  // namespace weft::data
