// Conversations against transformers: the ids of apply_chat_template, and the labels of {% generation %}.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "data/text_fixture.hpp"
#include "support/oracle_python.hpp"
#include "weft/data/text.hpp"

namespace weft::data {
namespace {

using nlohmann::ordered_json;

class ChatsOracle : public testing::Test {
 protected:
  void SetUp() override {
    WEFT_NEEDS_ORACLE();
    const std::string command = test::oracle_python() + " " WEFT_CHATS_ORACLE " " + folder_.path();
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    std::ifstream file(folder_.path() + "/expected.json");
    cases_ = ordered_json::parse(file);
  }
  // Returns the sample of a line.
  Batch sample_of(const ordered_json& each) const {
    const std::string folder = folder_.path() + "/" + each.at("folder").get<std::string>();
    const std::string path = folder_.file("line.jsonl", each.at("line").dump() + "\n");
    return open_text({{path, {}}}, Tokenizer::open(folder),
                     {.sequence_length = kLength, .packing = Packing::kNone})
        ->get({0});
  }
  static Ids ids_of(const Batch& batch) {
    Ids ids = values(batch.at("input_ids"));
    ids.resize(static_cast<size_t>(batch.at("attention_mask").sum().item<int64_t>()));
    return ids;
  }

  static constexpr int64_t kLength = 1024;
  test::TemporaryFolder folder_;
  ordered_json cases_;
};

TEST_F(ChatsOracle, HaveTheIdsOfTransformers) {
  std::map<std::string, int> compared, refused;
  for (const ordered_json& each : cases_) {
    const std::string folder = each.at("folder");
    if (each.at("ids").is_null()) {
      EXPECT_THROW(sample_of(each), Error) << each;
      ++refused[folder];
      continue;
    }
    try {
      EXPECT_EQ(ids_of(sample_of(each)), each.at("ids").get<Ids>()) << each;
      ++compared[folder];
    } catch (const Error& error) {
      ADD_FAILURE() << folder << " " << each.at("line") << ": " << error.what();
    }
  }
  // Of the folders with "tool_use" alone, half of the conversations have tools.
  for (const char* folder : {"calls", "members", "named_list", "named_files"})
    EXPECT_EQ(compared[folder], 44);
  for (const char* folder : {"only_list", "only_files"}) EXPECT_EQ(compared[folder], refused[folder]);
}

TEST_F(ChatsOracle, LearnTheEndOfATurnInWhichNothingIsSaid) {
  int compared = 0;
  for (const ordered_json& each : cases_) {
    if (each.at("labels").is_null()) continue;
    Ids labels = each.at("labels").get<Ids>();
    const Batch batch = sample_of(each);
    labels.resize(kLength, -100);
    EXPECT_EQ(values(batch.at("labels")), labels) << each;
    ++compared;
  }
  EXPECT_EQ(compared, 4 * 6);
}

}  // namespace
}  // namespace weft::data
