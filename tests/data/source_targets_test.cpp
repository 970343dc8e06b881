// Prompts and chats for a model with an encoder and a decoder.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "data/text_fixture.hpp"
#include "support/expect_error.hpp"

namespace weft::data {
namespace {

constexpr int64_t kNo = -100;

class SourcesAndTargets : public Text {
 protected:
  // As T5's: an id behind a sequence, which also ends documents.
  SourcesAndTargets() {
    encoder_.before = {};
    encoder_.closing = encoder_.after = {kEnd};
    encoder_.padding = 0;
  }
  std::shared_ptr<Dataset> pairs(const std::string& lines, int64_t length = 6,
                                 TextOptions options = {}) const {
    options.source_and_target = true;
    return open(folder_.file("a.jsonl", lines), length, options);
  }
};

TEST_F(SourcesAndTargets, AreAPromptAndItsCompletion) {
  // Encoded together, the two line breaks would be one id.
  const std::string lines = R"({"prompt": "ab\n", "completion": "\ncd"})"
                            "\n"
                            R"({"prompt": "", "completion": ""})"
                            "\n";
  const Batch batch = pairs(lines)->get({0, 1});
  EXPECT_EQ(values(batch.at("input_ids")), joined({{'a', 'b', '\n', kEnd, 0, 0}, {kEnd, 0, 0, 0, 0, 0}}));
  EXPECT_EQ(values(batch.at("attention_mask")), (Ids{1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(values(batch.at("labels")),
            joined({{'\n', 'c', 'd', kEnd, kNo, kNo}, {kEnd, kNo, kNo, kNo, kNo, kNo}}));
  EXPECT_FALSE(batch.has("position_ids"));
  encoder_.pads_left = true;
  const Batch left = pairs(lines)->get({0});
  EXPECT_EQ(values(left.at("input_ids")), (Ids{0, 0, 'a', 'b', '\n', kEnd}));
  EXPECT_EQ(values(left.at("attention_mask")), (Ids{0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(values(left.at("labels")), (Ids{'\n', 'c', 'd', kEnd, kNo, kNo}));
}

// A tokenizer without a post-processor adds nothing to a source, but targets end.
TEST_F(SourcesAndTargets, HaveTheIdsThatTheTokenizerAdds) {
  encoder_.before = {kBegin};
  encoder_.closing = {};
  Batch batch = pairs(R"({"prompt": "ab", "completion": "c"})")->get({0});
  EXPECT_EQ(values(batch.at("input_ids")), (Ids{kBegin, 'a', 'b', 0, 0, 0}));
  EXPECT_EQ(values(batch.at("labels")), (Ids{kBegin, 'c', kEnd, kNo, kNo, kNo}));
  encoder_.before = {};
  EXPECT_ERROR(pairs(R"({"prompt": "", "completion": "c"})"), WEFT_INVALID_ARGUMENT, "a.jsonl:1", "prompt");
  // A text that ends itself is not ended again.
  encoder_.closing = encoder_.after = {'.'};
  batch = pairs(R"({"prompt": "a.", "completion": "b."})")->get({0});
  EXPECT_EQ(values(batch.at("input_ids")), (Ids{'a', '.', 0, 0, 0, 0}));
  EXPECT_EQ(values(batch.at("labels")), (Ids{'b', '.', kNo, kNo, kNo, kNo}));
}

TEST_F(SourcesAndTargets, AreEachTurnOfAChatAndWhatIsBeforeIt) {
  encoder_.chat_template =
      "{% for m in messages %}{{ m.role[0] ~ m.content }};{% endfor %}{% if add_generation_prompt %}a{% "
      "endif %}";
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "c"},)"
      R"( {"role": "user", "content": "d"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "e"}]})";
  const auto data = pairs(chat, 12);
  ASSERT_EQ(data->size(), 2);
  const Batch batch = data->get({0, 1});
  EXPECT_EQ(values(batch.at("input_ids")),
            joined({encode_pairs("ub;a"), {kEnd}, Ids(7, 0), encode_pairs("ub;ac;ud;a"), {kEnd, 0}}));
  EXPECT_EQ(values(batch.at("labels")),
            joined({encode_pairs("c;"), {kEnd}, Ids(9, kNo), encode_pairs(";"), {kEnd}, Ids(10, kNo)}));
}

TEST_F(SourcesAndTargets, AreCutInFrontOfTheirEndsOrLeftOut) {
  std::vector<std::string> notes;
  TextOptions options{.note = [&](const std::string& note) { notes.push_back(note); }};
  const std::string lines = R"({"prompt": "abcdef", "completion": "ghijk"})"
                            "\n"
                            R"({"prompt": "l", "completion": "m"})";
  const Batch batch = pairs(lines, 4, options)->get({0});
  EXPECT_EQ(values(batch.at("input_ids")), (Ids{'a', 'b', 'c', kEnd}));
  EXPECT_EQ(values(batch.at("labels")), (Ids{'g', 'h', 'i', kEnd}));
  EXPECT_THAT(notes, testing::ElementsAre(testing::HasSubstr("1 of 2 documents")));
  encoder_.truncates_left = true;
  const Batch left = pairs(lines, 4, options)->get({0});
  EXPECT_EQ(values(left.at("input_ids")), (Ids{'d', 'e', 'f', kEnd}));
  EXPECT_EQ(values(left.at("labels")), (Ids{'i', 'j', 'k', kEnd}));
  encoder_.before = {kBegin};
  const Batch begun = pairs(lines, 4, options)->get({0});
  EXPECT_EQ(values(begun.at("input_ids")), (Ids{kBegin, 'e', 'f', kEnd}));
  EXPECT_EQ(values(begun.at("labels")), (Ids{kBegin, 'j', 'k', kEnd}));
  EXPECT_ERROR(pairs(lines, 2), WEFT_INVALID_ARGUMENT, "at least 3");
  encoder_.before = {};
  encoder_.truncates_left = false;
  options.drop_long_documents = true;
  EXPECT_EQ(pairs(lines, 4, options)->size(), 1);
  EXPECT_EQ(pairs(lines, 7, options)->size(), 2);
  EXPECT_ERROR(pairs(R"({"prompt": "abcdef", "completion": "g"})", 4, options), WEFT_INVALID_ARGUMENT,
               "all 1 documents", "--sequence-length 4");
  EXPECT_ERROR(pairs(lines, 1), WEFT_INVALID_ARGUMENT, "at least 2");
  EXPECT_ERROR(pairs(lines, 4, {.packing = Packing::kStream}), WEFT_INVALID_ARGUMENT, "--packing");
  EXPECT_ERROR(pairs(lines)->get({2}), WEFT_OUT_OF_RANGE, "no sample 2");
}

TEST_F(SourcesAndTargets, AreHeldOutWithTheOtherTurnsOfTheirChat) {
  encoder_.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}";
  for (const char* file : {"1.jsonl", "2.jsonl"}) {
    std::string lines;
    for (const char letter : {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})
      lines += fmt::format(
          R"({{"messages": [{{"role": "user", "content": "{0}"}}, {{"role": "assistant", "content": "{0}"}},)"
          R"( {{"role": "user", "content": "{0}"}}, {{"role": "assistant", "content": "{0}"}}]}})"
          "\n",
          letter);
    folder_.file(file, lines);
  }
  TextOptions options{.held_out = 0.5, .source_and_target = true};
  int64_t documents = 0;
  for (const Part part : {Part::kTraining, Part::kHeldOut}) {
    options.part = part;
    const auto data = open(folder_.path() + "/*.jsonl", 8, options);
    documents += data->size();
    ASSERT_EQ(data->size() % 2, 0);
    for (int64_t i = 0; i < data->size(); i += 2)
      EXPECT_EQ(values(data->get({i}).at("labels")), values(data->get({i + 1}).at("labels")));
  }
  EXPECT_EQ(documents, 2 * 8 * 2);
}

TEST_F(SourcesAndTargets, AreTheSameTokensInATextAlone) {
  const Batch among = pairs(R"({"text": "ab"})"
                            "\n"
                            R"({"prompt": "c", "completion": "d"})")
                          ->get({0});
  EXPECT_EQ(values(among.at("input_ids")), (Ids{'a', 'b', kEnd, 0, 0, 0}));
  EXPECT_EQ(values(among.at("labels")), (Ids{'a', 'b', kEnd, kNo, kNo, kNo}));
  // The samples of a mixture have the same fields.
  const std::string text = folder_.file("b.txt", "ef"),
                    prompts = folder_.file("c.jsonl", R"({"prompt": "g", "completion": "h"})");
  const Batch mixed = open_encoded_text({{text, {}}, {prompts, {}}}, encoder_,
                                        {.sequence_length = 4, .source_and_target = true})
                          ->get({0, 1});
  EXPECT_EQ(values(mixed.at("input_ids")), (Ids{'e', 'f', kEnd, 0, 'g', kEnd, 0, 0}));
  EXPECT_EQ(values(mixed.at("labels")), (Ids{'e', 'f', kEnd, kNo, 'h', kEnd, kNo, kNo}));
  // Texts alone are packed as for any model.
  const Batch packed = pairs("{\"text\": \"ab\"}\n{\"text\": \"cd\"}\n")->get({0});
  EXPECT_EQ(values(packed.at("input_ids")), (Ids{'a', 'b', kEnd, 'c', 'd', kEnd}));
}

}  // namespace
}  // namespace weft::data
