// Chats as text of the templates that models have.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "data/chat.hpp"
#include "engine/data/text_fixture.hpp"
#include "support/expect_error.hpp"

namespace weft::data {
namespace {

std::string text_of(const std::vector<ChatPiece>& pieces, bool learned_only = false) {
  std::string text;
  for (const ChatPiece& piece : pieces)
    if (piece.learned || !learned_only) text += piece.text;
  return text;
}

TEST(Chat, IsTheTextOfKnownTemplates) {
  const std::vector<ChatMessage> messages = {
      {"user", " Hi "}, {"assistant", "Yes."}, {"user", "So?"}, {"assistant", " No. "}};
  TextEncoder encoder = pair_encoder();
  encoder.chat_template =
      "{{ bos_token }}<|start_header_id|>{{ role }}<|end_header_id|> {{ content | trim }} <|eot_id|>";
  auto pieces = ChatFormat(encoder).text_of(messages);
  EXPECT_EQ(text_of(pieces),
            "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_"
            "header_id|>"
            "\n\nYes.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nSo?<|eot_id|><|start_header_id|>"
            "assistant"
            "<|end_header_id|>\n\nNo.<|eot_id|>");
  EXPECT_EQ(text_of(pieces, true), "Yes.<|eot_id|>No.<|eot_id|>");
  encoder.chat_template += "Cutting Knowledge Date";
  EXPECT_EQ(text_of(ChatFormat(encoder).text_of({{"system", "Be brief."}, {"user", "Hi"}})),
            "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
            "Date: 26 "
            "Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>");
  encoder.chat_template += "{%- set date_string = strftime_now() %}{%- set date_string = '1 May 2025' %}";
  EXPECT_THAT(text_of(ChatFormat(encoder).text_of({{"user", "Hi"}})),
              testing::HasSubstr("Today Date: 1 May 2025\n\n<|eot_id|>"));
  encoder.chat_template = "{{ bos_token }}<|start_header_id|>{{ content }}<|eot_id|>";
  EXPECT_THAT(text_of(ChatFormat(encoder).text_of(messages)), testing::HasSubstr("\n\n Hi <|eot_id|>"));
  encoder.chat_template =
      "{{ '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}{{ '<|im_start|>' + message['role'] }}";
  EXPECT_EQ(
      text_of(ChatFormat(encoder).text_of({messages.begin(), messages.begin() + 2})),
      "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\nYes."
      "<|im_end|>\n");
  encoder.chat_template = "{{ bos_token }}<|im_start|> <|im_end|>";
  EXPECT_EQ(text_of(ChatFormat(encoder).text_of({{"user", "a"}})), "<s><|im_start|>user\na<|im_end|>\n");
  // Qwen 3: the answer to the last question shows thoughts, in some templates even if there are none.
  encoder.chat_template = "<|im_start|> <|im_end|> reasoning_content";
  const std::vector<ChatMessage> plain = {{"user", "a"}, {"assistant", "b"}};
  EXPECT_EQ(text_of(ChatFormat(encoder).text_of(plain), true), "b<|im_end|>");
  encoder.chat_template += "loop.last or (not loop.last and reasoning_content)";
  EXPECT_EQ(text_of(ChatFormat(encoder).text_of(plain), true), "<think>\n\n</think>\n\nb<|im_end|>");
  EXPECT_EQ(
      text_of(ChatFormat(encoder).text_of({{"user", "a"},
                                           {"assistant", "<think>\nx\n</think>\n\nb"},
                                           {"user", "c"},
                                           {"assistant", "<think>\ny\n</think>\n\nd"}})),
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
      "<|im_start|>assistant\n<think>\ny\n</think>\n\nd<|im_end|>\n");
  encoder.chat_template = "[Round {{ i }}]\n\n问：{{ q }}\n\n答：";
  const ChatFormat rounds(encoder);
  pieces = rounds.text_of(messages);
  EXPECT_EQ(text_of(pieces), "[Round 1]\n\n问： Hi \n\n答：Yes.\n\n[Round 2]\n\n问：So?\n\n答： No. ");
  EXPECT_EQ(text_of(pieces, true), "Yes. No. ");
  EXPECT_ERROR(rounds.text_of({{"system", "a"}}), WEFT_INVALID_ARGUMENT, "message 1", "must be user");
}

TEST(Chat, IsRefusedWithTheNameOfAnotherTemplate) {
  TextEncoder encoder = pair_encoder();
  EXPECT_ERROR(ChatFormat(encoder), WEFT_FAILED_PRECONDITION, "test/tokenizer.json", "has none");
  encoder.chat_template = "{{ '[INST] ' + message['content'] }}";
  EXPECT_ERROR(ChatFormat(encoder), WEFT_UNIMPLEMENTED, "with [INST]");
  encoder.chat_template = "{{ bos_token }}Q: ";
  EXPECT_ERROR(ChatFormat(encoder), WEFT_UNIMPLEMENTED, "begins \"{{ bos_token }}Q: \"");
}

TEST_F(Text, OfChatsHasLabelsOfTheAssistantAlone) {
  encoder_.chat_template = "<|im_start|> <|im_end|>";
  const std::string path = folder_.file(
      "a.jsonl",
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "\nb"}]})");
  const std::string user = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant", answer = "\n\nb<|im_end|>";
  const Ids ids = encode_pairs(user + answer + "\n");
  const Batch batch = open(path, static_cast<int64_t>(ids.size()), {})->get({0});
  EXPECT_EQ(values(batch.at("input_ids")), ids);
  EXPECT_EQ(values(batch.at("labels")), joined({Ids(user.size(), -100), encode_pairs(answer), {-100}}));
  encoder_.chat_template = "[INST]";
  EXPECT_ERROR(open(path), WEFT_UNIMPLEMENTED, "a.jsonl:1", "[INST]");
}

}  // namespace
}  // namespace weft::data
