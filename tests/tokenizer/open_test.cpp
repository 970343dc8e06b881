#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/files.hpp"
#include "support/expect_error.hpp"
#include "tokenizer/files.hpp"

namespace weft {

namespace {

using test::added_token;
using test::Json;
using test::open_tokenizer;
using test::small_tokenizer;
using Ids = std::vector<int64_t>;
using Role = Tokenizer::Role;

TEST(OpenTokenizer, SaysThatAFolderHasNone) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(Tokenizer::is_in(folder.path()));
  EXPECT_ERROR(Tokenizer::open(folder.path()), WEFT_NOT_FOUND, folder.path(), "tokenizer.json");
}

// A message of protocol buffers: fields of bytes.
std::string field(char number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string piece(const std::string& text, char type, float score = 0) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &score, 4);
  return field(1, field(1, text) + "\x15" + bytes + "\x18" + type);
}

TEST(OpenTokenizer, ReadsAModelOfSentencePiece) {
  const test::TemporaryFolder folder;
  const auto open = [&](const std::string& bytes, const Json& config = Json::object()) {
    folder.file("tokenizer.model", bytes);
    folder.file("tokenizer_config.json", config.dump());
    return Tokenizer::open(folder.path());
  };
  const std::string pairs = field(2, "\x18\x02"), plain = "\x1A\x02\x20" + std::string(1, '\0');
  const std::string pieces = piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3) + piece("ab", 1, -1) +
                             piece("\u2581ab", 1, -2) + piece("\u2581", 1, -3) + piece("a", 1, -4) +
                             piece("b", 1, -5);
  const Tokenizer none = open(pieces + pairs);
  EXPECT_TRUE(Tokenizer::is_in(folder.path()));
  EXPECT_EQ(none.encode(" ab  ba "), (Ids{4, 5, 7, 6}));
  EXPECT_EQ(open(pieces + pairs + plain).encode("ab "), (Ids{4, 5}));  // spaces stay
  EXPECT_EQ(none.decode({4, 5, 7, 6}), "ab ba");
  const Tokenizer llama = open(pieces + pairs, {{"tokenizer_class", "LlamaTokenizer"}});
  EXPECT_EQ(llama.encode("a</s>"), (Ids{1, 5, 6, 2}));
  EXPECT_EQ(llama.id_of(Role::kEnd), 2);
  const Tokenizer chat = open(pieces + pairs, {{"tokenizer_class", "ChatGLMTokenizer"}});
  EXPECT_EQ(chat.encode("a"), (Ids{9, 11, 5, 6}));
  EXPECT_EQ(chat.encode_pair("a", "b"), (Ids{9, 11, 5, 6, 5, 7, 2}));
  EXPECT_EQ(chat.encode("sop", false), (Ids{5, 0}));  // no text becomes it
  EXPECT_EQ(chat.decode({9, 11, 5, 6}), "a");
  EXPECT_TRUE(chat.pads_left());
  EXPECT_EQ(chat.id_of(Role::kPadding), 0);
  EXPECT_EQ(chat.vocabulary_size(), 13);
  EXPECT_ERROR(open(pieces + pairs, {{"tokenizer_class", "T5Tokenizer"}}), WEFT_UNIMPLEMENTED, "T5Tokenizer",
               "save_pretrained");
  EXPECT_ERROR(open(pieces + piece("<mask>", 4) + pairs), WEFT_UNIMPLEMENTED, "the user", "<mask>");
  EXPECT_ERROR(open(pieces + field(2, "\x18\x03")), WEFT_UNIMPLEMENTED, "whole words");
  EXPECT_ERROR(open(""), WEFT_DATA_LOSS, "tokenizer.model", "no pieces");
  EXPECT_ERROR(open("no model"), WEFT_DATA_LOSS, "tokenizer.model", "damaged");
  for (size_t size = 1; size < pieces.size(); ++size) {
    try {
      open(pieces.substr(0, size) + pairs);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), WEFT_DATA_LOSS) << size << ": " << error.what();
    }
  }
}

TEST(OpenTokenizer, NamesPartsThatWeftDoesNotHave) {
  Json parts = small_tokenizer();
  parts["decoder"] = {{"type", "CTC"}};
  EXPECT_ERROR(open_tokenizer(parts), WEFT_UNIMPLEMENTED, "\"decoder\"", "CTC");
  parts = small_tokenizer();
  parts["pre_tokenizer"] = {{"type", "Sorted"}};
  EXPECT_ERROR(open_tokenizer(parts), WEFT_UNIMPLEMENTED, "\"pre_tokenizer\"", "Sorted");
  parts = small_tokenizer();
  parts["model"]["dropout"] = 0.1;
  EXPECT_ERROR(open_tokenizer(parts), WEFT_UNIMPLEMENTED, "dropout", "0.1");
}

TEST(OpenTokenizer, SaysWhatIsDamaged) {
  const auto damaged = [](const char* pointer, const Json& value, const std::string& text) {
    Json parts = small_tokenizer();
    parts[Json::json_pointer(pointer)] = value;
    EXPECT_ERROR(open_tokenizer(parts), WEFT_DATA_LOSS, "tokenizer.json", text);
  };
  damaged("/model", 3, "an object");
  damaged("/model/vocab/a", -1, "vocab");
  damaged("/model/vocab/a", int64_t{1} << 40, "the id");
  damaged("/model/merges", {"a z"}, "\"z\"");
  damaged("/model/merges", {"a"}, "two tokens");
  damaged("/model/unk_token", "none", "unk_token");
  damaged("/added_tokens", "x", "added_tokens");
  damaged("/post_processor", {{"type", "BertProcessing"}}, "a list");
  const test::TemporaryFolder folder;
  folder.file("tokenizer.json", "{\"model\": ");
  EXPECT_ERROR(Tokenizer::open(folder.path()), WEFT_DATA_LOSS, "tokenizer.json");
}

TEST(OpenTokenizer, ReadsRolesAndTheChatTemplate) {
  const Tokenizer tokenizer = open_tokenizer(
      small_tokenizer(), {{"bos_token", "<s>"},
                          {"eos_token", {{"content", "a"}, {"lstrip", false}}},
                          {"padding_side", "left"},
                          {"chat_template", {{{"name", "default"}, {"template", "{{ x }}"}}}}});
  EXPECT_EQ(tokenizer.id_of(Role::kBegin), 8) << "added behind the vocabulary";
  EXPECT_EQ(tokenizer.id_of(Role::kEnd), 0);
  EXPECT_EQ(tokenizer.id_of(Role::kMask), std::nullopt);
  EXPECT_TRUE(tokenizer.pads_left());
  EXPECT_EQ(tokenizer.chat_template(), "{{ x }}");
  EXPECT_EQ(tokenizer.encode("a<s>"), (Ids{0, 8}));
}

TEST(OpenTokenizer, ReadsTheSideOfTheTruncationAndDoesNotTruncate) {
  const auto is_left = [](const Json& truncation, const Json& config) {
    Json files = small_tokenizer();
    files["truncation"] = truncation;
    const Tokenizer tokenizer = open_tokenizer(files, config);
    EXPECT_EQ(tokenizer.encode("aaa").size(), 3u);
    return tokenizer.truncates_left();
  };
  const Json left = {{"direction", "Left"}, {"max_length", 1}, {"strategy", "LongestFirst"}, {"stride", 0}};
  EXPECT_FALSE(is_left(nullptr, Json::object()));
  EXPECT_TRUE(is_left(nullptr, {{"truncation_side", "left"}}));
  EXPECT_TRUE(is_left(left, Json::object()));
  EXPECT_FALSE(is_left(left, {{"truncation_side", "right"}}));
}

TEST(OpenTokenizer, ReadsNamedChatTemplatesAndSavesThem) {
  const Json list = {{{"name", "tool_use"}, {"template", "t"}},
                     {{"name", "default"}, {"template", "d"}},
                     {{"name", "default"}, {"template", "last"}},
                     {{"name", "broken"}}};
  const test::TemporaryFolder folder, saved;
  folder.file("tokenizer.json", small_tokenizer().dump());
  folder.file("tokenizer_config.json", Json{{"chat_template", list}}.dump());
  Tokenizer tokenizer = Tokenizer::open(folder.path());
  EXPECT_EQ(tokenizer.chat_template(), "last");
  EXPECT_EQ(tokenizer.chat_template("tool_use"), "t");
  EXPECT_EQ(tokenizer.chat_template("broken"), "");
  // Files come first.
  std::filesystem::create_directory(folder.path() + "/additional_chat_templates");
  folder.file("additional_chat_templates/rag.jinja", "r");
  folder.file("additional_chat_templates/notes.txt", "no");
  tokenizer = Tokenizer::open(folder.path());
  EXPECT_EQ(tokenizer.chat_template("rag"), "r");
  EXPECT_EQ(tokenizer.chat_template("tool_use"), "");
  EXPECT_EQ(tokenizer.chat_template(), "last");
  folder.file("additional_chat_templates/tool_use.jinja", "f");
  folder.file("chat_template.jinja", "j");
  tokenizer = Tokenizer::open(folder.path());
  EXPECT_EQ(tokenizer.chat_template("tool_use"), "f");
  EXPECT_EQ(tokenizer.chat_template(), "j");
  tokenizer.save(saved.path());
  tokenizer.save(saved.path());
  tokenizer = Tokenizer::open(saved.path());
  EXPECT_EQ(tokenizer.chat_template(), "j");
  EXPECT_EQ(tokenizer.chat_template("tool_use"), "f");
  EXPECT_EQ(tokenizer.chat_template("rag"), "r");
  EXPECT_FALSE(std::filesystem::exists(saved.path() + "/additional_chat_templates/notes.txt"));
  folder.file("additional_chat_templates/rag.jinja", "\xff");
  EXPECT_ERROR(Tokenizer::open(folder.path()), WEFT_DATA_LOSS, "rag.jinja", "UTF-8");
}

TEST(OpenTokenizer, ReadsAVocabularyWithMerges) {
  const test::TemporaryFolder folder;
  folder.file("vocab.json", R"({"a": 0, "b": 1, "Ġ": 2, "ab": 3, "<|endoftext|>": 4})");
  folder.file("merges.txt", "#version: 0.2\na b\n");
  folder.file("special_tokens_map.json", R"({"bos_token": "<|endoftext|>"})");
  folder.file("added_tokens.json", R"({"<x>": 5})");
  const Tokenizer tokenizer = Tokenizer::open(folder.path());
  EXPECT_EQ(tokenizer.encode("ab <x><|endoftext|>"), (Ids{3, 2, 5, 4}));
  EXPECT_EQ(tokenizer.id_of(Role::kEnd), 4);
  folder.file("tokenizer_config.json", R"({"add_bos_token": true, "tokenizer_class": "GPT2Tokenizer"})");
  EXPECT_EQ(Tokenizer::open(folder.path()).encode("ab"), (Ids{4, 3}));
  folder.file("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})");
  EXPECT_ERROR(Tokenizer::open(folder.path()), WEFT_UNIMPLEMENTED, "CLIPTokenizer", "save_pretrained");
}

TEST(OpenTokenizer, ReadsAListOfWordPieces) {
  const test::TemporaryFolder folder;
  folder.file("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##s\n,\n");
  const Tokenizer tokenizer = Tokenizer::open(folder.path());
  EXPECT_EQ(tokenizer.encode("Hellos, x[MASK]"), (Ids{2, 5, 6, 7, 1, 4, 3}));
  EXPECT_EQ(tokenizer.decode({2, 5, 6, 7, 3}), "hellos,");
}

TEST(OpenTokenizer, SavesItsFilesAndTellsVocabulariesApart) {
  const test::TemporaryFolder from, to;
  from.file("tokenizer.json", small_tokenizer().dump());
  from.file("tokenizer_config.json", "{}");
  const Tokenizer tokenizer = Tokenizer::open(from.path());
  tokenizer.save(to.path());
  EXPECT_EQ(Tokenizer::open(to.path()).digest(), tokenizer.digest());
  to.file("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_NE(Tokenizer::open(to.path()).digest(), tokenizer.digest());
}

// A model folder can be moved, or get other files, while a job runs.
TEST(OpenTokenizer, SavesItsFilesAsTheyWereWhenItWasOpened) {
  const test::TemporaryFolder from, to;
  const std::string vocabulary = small_tokenizer().dump();
  from.file("tokenizer.json", vocabulary);
  from.file("chat_template.jinja", "{{ messages }}");
  from.file("vocab.txt", "of another tokenizer");
  const Tokenizer tokenizer = Tokenizer::open(from.path());
  from.file("tokenizer.json", "{}");
  std::filesystem::remove(from.path() + "/chat_template.jinja");
  tokenizer.save(to.path());
  EXPECT_EQ(read_file(to.path() + "/tokenizer.json", 1 << 20), vocabulary);
  EXPECT_EQ(read_file(to.path() + "/chat_template.jinja", 1 << 20), "{{ messages }}");
  EXPECT_EQ(read_file(to.path() + "/vocab.txt", 1 << 20), "of another tokenizer");
  EXPECT_FALSE(std::filesystem::exists(to.path() + "/tokenizer_config.json"));
}

}  // namespace

}  // namespace weft
