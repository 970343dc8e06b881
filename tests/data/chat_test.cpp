// Chats as the text of the templates that models have, and what of it is learned.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/text_fixture.hpp"
#include "support/expect_error.hpp"
#include "text/chat.hpp"
#include "tokenizer/folder.hpp"

namespace weft::data {
namespace {

using Json = nlohmann::ordered_json;

// The encoder of a tokenizer with a template of tests/oracles/chat_templates.
TextEncoder encoder_with(const std::string& name) {
  TextEncoder encoder = pair_encoder();
  std::ifstream file(std::filesystem::path(WEFT_CHAT_TEMPLATES) / (name + ".jinja"));
  encoder.chat_template.assign(std::istreambuf_iterator<char>(file), {});
  EXPECT_FALSE(encoder.chat_template.empty()) << name;
  return encoder;
}

Json says(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}
const Json kTwoTurns = {says("user", " Hi "), says("assistant", "Yes."), says("user", "So?"),
                        says("assistant", " No. ")};

// Returns the text of a conversation, with <{ before and }> behind what is learned.
std::string marked(const TextEncoder& encoder, const Json& messages, const Json& tools = {}) {
  std::string text;
  for (const ChatPiece& piece : ChatFormat(encoder).text_of(messages, tools))
    text += piece.learned ? "<{" + piece.text + "}>" : piece.text;
  return text;
}

TEST(Chat, IsLearnedFromThePromptToTheEndOfTheTurn) {
  EXPECT_EQ(
      marked(encoder_with("marks"), kTwoTurns),
      "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"
      "<{Yes.<|im_end|>}>\n<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\n<{ No. <|im_end|>}>\n");
  EXPECT_EQ(marked(encoder_with("model"), kTwoTurns),
            "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n<{Yes.<end_of_turn>}>\n"
            "<start_of_turn>user\nSo?<end_of_turn>\n<start_of_turn>model\n<{No.<end_of_turn>}>\n");
  // This one has no generation prompt.
  EXPECT_EQ(marked(encoder_with("brackets"), kTwoTurns),
            "<s>[INST]  Hi  [/INST] <{Yes.</s>}>[INST] So? [/INST] <{ No. </s>}>");
  EXPECT_EQ(marked(encoder_with("headers"),
                   {says("system", "Be brief. "), says("user", "a"), says("assistant", "b")}),
            "<s><|start_header_id|>system<|end_header_id|>\n\nToday Date: 1 May 2025\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_"
            "id|>\n\n"
            "<{b<|eot_id|>}>");
  EXPECT_EQ(marked(encoder_with("marks"), Json::array({says("user", "a")})).find("<{"), std::string::npos);
}

TEST(Chat, IsLearnedWithTheThoughtsThatTheTemplateKeeps) {
  const TextEncoder encoder = encoder_with("thoughts");
  EXPECT_EQ(marked(encoder, {says("user", "a"), says("assistant", "b")}),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<{<think>\n\n</think>\n\nb<|im_end|>}>\n");
  const Json thinking = {says("user", "a"), says("assistant", "<think>\nx\n</think>\n\nb"), says("user", "c"),
                         says("assistant", "<think>\ny\n</think>\n\nd")};
  EXPECT_EQ(
      marked(encoder, thinking),
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<{b<|im_end|>}>\n<|im_start|>user\nc<|im_end|>\n"
      "<|im_start|>assistant\n<{<think>\ny\n</think>\n\nd<|im_end|>}>\n");
}

// Such a template ends a conversation with more than a turn.
TEST(Chat, IsNotLearnedBehindItsTurn) {
  TextEncoder encoder = encoder_with("marks");
  encoder.chat_template.insert(encoder.chat_template.find("{% if add"), "{{ '<|end|>' }}");
  EXPECT_EQ(
      marked(encoder, {says("system", "s"), says("user", "a"), says("assistant", "b"), says("user", "c")}),
      "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<{b<|im_end|>}>"
      "\n"
      "<|im_start|>user\nc<|im_end|>\n<|end|>");
}

TEST(Chat, IsLearnedInGenerationBlocksIfTheTemplateHasThem) {
  EXPECT_EQ(marked(encoder_with("blocks"), {says("user", "a"), says("assistant", "b")}),
            "User: a\nA: <{b</s>}>");
}

TEST(Chat, IsLearnedToTheEndOfATurnInWhichNothingIsSaid) {
  const std::string user = "<|im_start|>user\na<|im_end|>\n", prompt = "<|im_start|>assistant\n",
                    silent = prompt + "<{<|im_end|>}>\n";
  TextEncoder encoder = encoder_with("marks");
  encoder.chat_template.erase(0, encoder.chat_template.find("{{ '<|im_start|>' + message"));
  encoder.chat_template = "{% for message in messages %}" + encoder.chat_template;
  EXPECT_EQ(marked(encoder, {says("user", "a"), says("assistant", "")}), user + silent);
  EXPECT_EQ(marked(encoder, {says("user", "a"), says("assistant", ""), says("user", "a"),
                             says("assistant", "b"), says("user", "a"), says("assistant", "")}),
            user + silent + user + prompt + "<{b<|im_end|>}>\n" + user + silent);
  EXPECT_EQ(marked(encoder_with("brackets"), {says("user", "a"), says("assistant", "")}),
            "<s>[INST] a [/INST] <{</s>}>");
  // This one writes other text where nothing is said.
  encoder.chat_template.replace(encoder.chat_template.find("message['content']"), 18,
                                "(message['content'] or '(none)')");
  EXPECT_EQ(
      marked(encoder, {says("user", "a"), says("assistant", ""), says("user", "a"), says("assistant", "b")}),
      user + prompt + "<{(none)<|im_end|>}>\n" + user + prompt + "<{b<|im_end|>}>\n");
}

TEST(Chat, HasNoMembersThatAreNull) {
  TextEncoder encoder = pair_encoder();
  encoder.chat_template =
      "{% for m in messages %}{% for key, value in m.items() %}{{ key }}={{ value | tojson }};{% endfor %}{% "
      "endfor %}"
      "{{ tools | tojson }}";
  const auto text = [&](const Json& messages, const Json& tools = {}) {
    std::string all;
    for (const ChatPiece& piece : ChatFormat(encoder).text_of(messages, tools)) all += piece.text;
    return all;
  };
  Json call = {
      {"role", "assistant"}, {"content", nullptr}, {"tool_calls", {{{"arguments", {{"a", nullptr}}}}}}};
  call["audio"] = nullptr;
  EXPECT_EQ(text(Json::array({call})), "role=\"assistant\";tool_calls=[{\"arguments\": {\"a\": null}}];null");
  EXPECT_EQ(text(Json::array({says("user", "a")}), Json::array({{{"x", nullptr}}})),
            "role=\"user\";content=\"a\";[{\"x\": null}]");
  Json thinking = says("assistant", "b");
  thinking["reasoning_content"] = nullptr;
  thinking["reasoning"] = "so";
  EXPECT_EQ(
      text(Json::array({thinking})),
      "thinking=\"so\";role=\"assistant\";content=\"b\";reasoning=\"so\";reasoning_content=\"so\";null");
  thinking["thinking"] = "thus";
  EXPECT_EQ(
      text(Json::array({thinking})),
      "thinking=\"thus\";role=\"assistant\";content=\"b\";reasoning=\"so\";reasoning_content=\"thus\";null");
}

TEST(Chat, HasToolsAndTheirCalls) {
  Json call = {{"role", "assistant"}, {"content", nullptr}};
  call["tool_calls"] = {{{"function", {{"name", "warmth"}, {"arguments", {{"z", "K\u00f6ln"}, {"a", 3}}}}}}};
  const std::string text =
      marked(encoder_with("headers"),
             {says("user", "How warm?"), call, says("tool", "3"), says("assistant", "Cold.")},
             {{{"name", "warmth"}}});
  EXPECT_THAT(text, testing::HasSubstr("{\n  \"name\": \"warmth\"\n}\n"));
  EXPECT_THAT(text,
              testing::HasSubstr(
                  "<{{\"name\": \"warmth\", \"parameters\": {\"z\": \"K\u00f6ln\", \"a\": 3}}<|eot_id|>}>"));
  EXPECT_THAT(text, testing::EndsWith("<{Cold.<|eot_id|>}>"));
}

TEST(Chat, WritesRoundsBetweenTheIdsOfTheTokenizerForChatGlm) {
  TextEncoder encoder = pair_encoder();
  encoder.chat_template =
      tokenizer::read_chat_templates("nowhere", {{"tokenizer_class", "ChatGLMTokenizer"}}).at("default");
  EXPECT_TRUE(ChatFormat(encoder).is_enclosed());
  EXPECT_FALSE(ChatFormat(encoder_with("marks")).is_enclosed());
  EXPECT_EQ(marked(encoder, kTwoTurns),
            "[Round 1]\n\n问： Hi \n\n答：<{Yes.}>\n\n[Round 2]\n\n问：So?\n\n答：<{ No. }>");
  EXPECT_ERROR(marked(encoder, Json::array({says("system", "a")})), WEFT_INVALID_ARGUMENT, "user begins");
}

TEST(Chat, IsRefusedWithTheReason) {
  TextEncoder encoder = pair_encoder();
  EXPECT_ERROR(ChatFormat(encoder), WEFT_FAILED_PRECONDITION, "test/tokenizer.json", "has none");
  encoder.chat_template = "{% include 'other' %}";
  EXPECT_ERROR(ChatFormat(encoder), WEFT_UNIMPLEMENTED, "test/tokenizer.json", "line 1", "{% include %}");
  encoder.chat_template = "a\n{{ messages";
  EXPECT_ERROR(ChatFormat(encoder), WEFT_INVALID_ARGUMENT, "test/tokenizer.json", "line 2");
  encoder.chat_template = "{{ strftime_now('%Y') }}";
  EXPECT_ERROR(marked(encoder, kTwoTurns), WEFT_UNIMPLEMENTED, "test/tokenizer.json", "of today");
  EXPECT_ERROR(marked(encoder_with("brackets"), {says("user", "a"), says("user", "b")}),
               WEFT_INVALID_ARGUMENT, "take turns");
}

TEST_F(Text, HasLabelsOfTheAssistantAloneInChats) {
  encoder_.chat_template = encoder_with("marks").chat_template;
  const std::string path = folder_.file(
      "a.jsonl",
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "\nb"}]})");
  const std::string
      user = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant",
      answer = "\n\nb<|im_end|>";
  const Ids ids = encode_pairs(user + answer + "\n");
  const Batch batch = open(path, static_cast<int64_t>(ids.size()), {})->get({0});
  EXPECT_EQ(values(batch.at("input_ids")), ids);
  EXPECT_EQ(values(batch.at("labels")), joined({Ids(user.size(), -100), encode_pairs(answer), {-100}}));
}

TEST_F(Text, TakesTheTemplateOfToolsForChatsWithTools) {
  encoder_.chat_template = "D";
  encoder_.tool_template = "T{{ tools | tojson }}";
  const std::string messages = R"({"messages": [{"role": "user", "content": "a"}])";
  const auto text_of = [&](const std::string& more) {
    return all_ids(folder_.file("a.jsonl", messages + more + "}"));
  };
  EXPECT_EQ(text_of(""), encode_pairs("D"));
  EXPECT_EQ(text_of(", \"tools\": null"), encode_pairs("D"));
  EXPECT_EQ(text_of(", \"tools\": []"), encode_pairs("T[]"));
  EXPECT_EQ(text_of(", \"tools\": [{\"a\": null}]"), encode_pairs("T[{\"a\": null}]"));
  encoder_.chat_template.clear();
  EXPECT_EQ(text_of(", \"tools\": []"), encode_pairs("T[]"));
  EXPECT_ERROR(text_of(""), WEFT_FAILED_PRECONDITION, "a.jsonl:1", "default", "tool_use");
  encoder_.chat_template = "D";
  encoder_.tool_template = "{% include 'x' %}";
  EXPECT_EQ(text_of(""), encode_pairs("D"));
  EXPECT_ERROR(text_of(", \"tools\": []"), WEFT_UNIMPLEMENTED, "a.jsonl:1", "tool_use", "line 1");
}

TEST_F(Text, NamesTheLineOfAChatThatTheTemplateRefuses) {
  encoder_.chat_template = encoder_with("brackets").chat_template;
  const std::string
      good = R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})",
      bad = R"({"messages": [{"role": "assistant", "content": "a"}]})",
      empty = R"({"messages": [{"role": "user"}]})",
      null = R"({"messages": [{"role": "user", "content": null, "tool_calls": null}]})";
  EXPECT_ERROR(open(folder_.file("a.jsonl", good + "\n" + bad)), WEFT_INVALID_ARGUMENT, "a.jsonl:2",
               "take turns");
  EXPECT_ERROR(open(folder_.file("b.jsonl", empty)), WEFT_INVALID_ARGUMENT, "b.jsonl:1", "content");
  EXPECT_ERROR(open(folder_.file("b.jsonl", null)), WEFT_INVALID_ARGUMENT, "b.jsonl:1", "content");
  // The template is to blame, not a line that one may skip.
  encoder_.chat_template = "{{ messages";
  EXPECT_ERROR(open(folder_.file("c.jsonl", good)), WEFT_FAILED_PRECONDITION, "c.jsonl:1", "line 1");
}

TEST_F(Text, IsRefusedIfAChatTakesTooLong) {
  const std::string messages =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  const std::string file = folder_.file("a.jsonl", messages + "}");
  // It is asked for the prompt after the conversation was rendered.
  encoder_.chat_template =
      "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}\n"
      "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}{% endif %}";
  EXPECT_ERROR(open(file), WEFT_RESOURCE_EXHAUSTED, "a.jsonl:1", "line 2", "steps");
  // No part ends where an id ends.
  encoder_.chat_template =
      "{% for i in range(9999) %}{% generation %}{{ '\n' }}{% endgeneration %}{{ '\n' }}{% endfor %}";
  EXPECT_ERROR(open(file), WEFT_RESOURCE_EXHAUSTED, "a.jsonl:1", "19998 learned", "19998 bytes");
  std::string members;
  for (int i = 0; i < 1001; ++i) members += fmt::format("{}\"{}\": 1", i > 0 ? ", " : "", i);
  encoder_.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_ERROR(open(folder_.file("b.jsonl", messages + ", \"more\": {" + members + "}}")),
               WEFT_INVALID_ARGUMENT, "b.jsonl:1", "1001 members");
  EXPECT_NO_THROW(open(file, 2));
}

}  // namespace
}  // namespace weft::data
