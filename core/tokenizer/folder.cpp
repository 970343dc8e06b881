#include "tokenizer/folder.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/sentence_piece.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kLongestFile = size_t{1} << 30;
constexpr const char* kVocabularies[] = {"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model"};

// Parses a file; the file is damaged where its text is no JSON.
json parse(const std::string& text, const std::string& path) {
  try {
    return parse_json(text, path);
  } catch (const Error& error) {
    fail(WEFT_DATA_LOSS, "{}", error.what());
  }
}

json read_optional(const fs::path& path) {
  if (!fs::exists(path)) return json::object();
  json value = parse(read_file(path, kLongestFile), path.string());
  if (!value.is_object())
    fail(WEFT_DATA_LOSS, "{}: is {}, must be an object", path.string(), json_kind(value));
  return value;
}

void require_utf8(const std::string& text, const fs::path& path) {
  if (!is_utf8(text)) fail(WEFT_DATA_LOSS, "{}: is not UTF-8", path.string());
}

std::string read_text(const fs::path& path) {
  std::string text = read_file(path, kLongestFile);
  require_utf8(text, path);
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

// Merges the legacy files into the configuration, as transformers does: "added_tokens_decoder" replaces them.
json read_config(const fs::path& folder) {
  json config = read_optional(folder / "tokenizer_config.json");
  if (config.contains("added_tokens_decoder")) return config;
  const json map = read_optional(folder / "special_tokens_map.json");
  for (const auto& [key, value] : map.items()) config[key] = value;
  std::set<std::string> specials;
  for (const auto& [key, value] : config.items()) {
    const json content = value.is_object() ? value.value("content", json()) : value;
    if (key.ends_with("_token") && content.is_string()) specials.insert(content.get<std::string>());
  }
  json added = json::object();
  const json legacy = read_optional(folder / "added_tokens.json");
  for (const auto& [content, id] : legacy.items()) {
    const int64_t number = integer_of(id, content, (folder / "added_tokens.json").string());
    const bool special = specials.contains(content);
    added[std::to_string(number)] = {{"content", content}, {"special", special}, {"normalized", !special}};
  }
  config["added_tokens_decoder"] = std::move(added);
  return config;
}

// Refuses a class that builds other parts from the same files.
void require_class(const json& config, const std::string& path, std::string_view known) {
  std::string name = JsonPart(config, "tokenizer_config.json", path).text("tokenizer_class", known);
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (name != known)
    fail(
        WEFT_UNIMPLEMENTED,
        "{}: tokenizer_config.json names the class \"{}\", whose parts Weft knows from tokenizer.json alone; "
        "write one with transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)",
        path, printable(name, 80));
}

void set_default(json& config, const char* key, json value) {
  if (!config.contains(key) || config[key].is_null()) config[key] = std::move(value);
}

std::string content_of(const json& config, const char* key) {
  const json& value = config.at(key);
  if (value.is_string()) return value.get<std::string>();
  return JsonPart(value, key, "tokenizer_config.json").text("content");
}

// Returns what tokenizer.json would be of vocab.json and merges.txt.
json byte_pair_parts(const fs::path& folder, json& config, const json& vocabulary,
                     const std::string& merges) {
  const std::string path = (folder / "vocab.json").string();
  require_class(config, path, "GPT2Tokenizer");
  for (const char* key : {"bos_token", "eos_token", "unk_token"}) set_default(config, key, "<|endoftext|>");
  json list = json::array();
  for (const std::string& line : lines_of(merges))
    if (!line.empty() && !line.starts_with("#version")) list.push_back(line);
  const bool prefix = JsonPart(config, "tokenizer_config.json", path).flag("add_prefix_space", false);
  return {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", std::move(list)}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"use_regex", true}}},
          {"decoder", {{"type", "ByteLevel"}}}};
}

// Returns what tokenizer.json would be of vocab.txt.
json word_piece_parts(const fs::path& folder, json& config, const std::string& text) {
  const std::string path = (folder / "vocab.txt").string();
  require_class(config, path, "BertTokenizer");
  const std::pair<const char*, const char*> defaults[] = {{"unk_token", "[UNK]"},
                                                          {"sep_token", "[SEP]"},
                                                          {"pad_token", "[PAD]"},
                                                          {"cls_token", "[CLS]"},
                                                          {"mask_token", "[MASK]"}};
  for (const auto& [key, token] : defaults) set_default(config, key, token);
  json vocabulary = json::object();
  int64_t id = 0;
  for (const std::string& line : lines_of(text)) vocabulary[line] = id++;
  const JsonPart part(config, "tokenizer_config.json", path);
  const std::string first = content_of(config, "cls_token"), separator = content_of(config, "sep_token");
  const auto id_of = [&](const std::string& token) { return vocabulary.value(token, int64_t{0}); };
  json strip_accents = part.find("strip_accents") ? json(part.flag("strip_accents", false)) : json();
  return {{"model",
           {{"type", "WordPiece"},
            {"vocab", vocabulary},
            {"unk_token", content_of(config, "unk_token")},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100}}},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", part.flag("tokenize_chinese_chars", true)},
            {"strip_accents", std::move(strip_accents)},
            {"lowercase", part.flag("do_lower_case", true)}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "BertProcessing"},
            {"sep", json::array({separator, id_of(separator)})},
            {"cls", json::array({first, id_of(first)})}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
}

}  // namespace

std::string find_vocabulary(const std::string& folder) {
  const fs::path path(folder);
  std::error_code error;
  for (const char* name : kVocabularies) {
    const bool needs_merges = std::string_view(name) == "vocab.json";
    if (fs::exists(path / name, error) && (!needs_merges || fs::exists(path / "merges.txt", error)))
      return (path / name).string();
  }
  return "";
}

json read_tokenizer_config(const std::string& folder) {
  return read_config(folder);
}

namespace {

// Returns the files of the folder of further templates by their paths.
Files read_more_templates(const fs::path& folder) {
  Files files;
  std::error_code error;
  fs::directory_iterator entry(folder / kMoreTemplates, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == ".jinja" && entry->is_regular_file(error))
      files[kMoreTemplates + ("/" + entry->path().filename().string())] =
          read_file(entry->path(), kLongestFile);
  return files;
}

// Returns the templates of tokenizer_config.json.
ChatTemplates templates_of(const json& config) {
  // ChatGLM2 has a function of its own in its place.
  constexpr const char* kRounds =
      "{% for message in messages %}"
      "{% if message.role != ('user', 'assistant')[loop.index0 % 2] %}"
      "{{ raise_exception('user and assistant must take turns, and the user begins') }}"
      "{% elif message.role == 'user' %}"
      "{{ ('' if loop.first else '\n\n') ~ '[Round ' ~ (loop.index0 // 2 + 1) ~ ']\n\n问：' ~ "
      "message.content ~ '\n\n答：' }}"
      "{% else %}{{ message.content }}{% endif %}"
      "{% endfor %}";
  const auto found = config.find("chat_template");
  if (found == config.end() && config.value("tokenizer_class", json()) == "ChatGLMTokenizer")
    return {{"default", kRounds}};
  ChatTemplates templates;
  if (found == config.end()) return templates;
  if (found->is_string()) templates["default"] = found->get<std::string>();
  if (found->is_array())
    for (const json& item : *found)
      if (item.is_object() && item.value("name", json()).is_string() &&
          item.value("template", json()).is_string())
        templates[item["name"].get<std::string>()] = item["template"].get<std::string>();
  return templates;
}

}  // namespace

ChatTemplates read_chat_templates(const std::string& in, const json& config) {
  const fs::path folder(in), own = folder / "chat_template.jinja";
  ChatTemplates of_files;
  if (fs::exists(own)) of_files["default"] = read_text(own);
  for (const auto& [path, text] : read_more_templates(folder)) {
    require_utf8(text, folder / path);
    of_files[fs::path(path).stem().string()] = text;
  }
  ChatTemplates of_config = templates_of(config);
  if (of_files.empty()) return of_config;
  if (const auto usual = of_config.find("default"); usual != of_config.end()) of_files.insert(*usual);
  return of_files;
}

bool is_file_of_tokenizer(std::string_view name) {
  const auto is_name = [name](const char* known) { return name == known; };
  return name == "merges.txt" || name == kMoreTemplates ||
         std::any_of(std::begin(kVocabularies), std::end(kVocabularies), is_name) ||
         std::any_of(std::begin(kSettings), std::end(kSettings), is_name);
}

Files read_settings(const std::string& folder) {
  Files files = read_more_templates(folder);
  for (const char* name : kSettings)
    if (fs::exists(fs::path(folder) / name)) files[name] = read_file(fs::path(folder) / name, kLongestFile);
  return files;
}

FolderFiles read_folder(const std::string& folder) {
  FolderFiles files;
  files.path = find_vocabulary(folder);
  if (files.path.empty())
    fail(WEFT_NOT_FOUND,
         "{} has no tokenizer: none of tokenizer.json, vocab.json with merges.txt, vocab.txt, "
         "tokenizer.model",
         folder);
  const fs::path path(folder);
  files.files = read_settings(folder);
  for (const char* name : {"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "merges.txt"})
    if (fs::exists(path / name)) files.files[name] = read_file(path / name, kLongestFile);
  files.config = read_config(path);
  Sha256 digest;
  const std::string name = fs::path(files.path).filename().string();
  const bool is_binary = name == "tokenizer.model";
  const std::string& text = files.files.at(name);
  if (!is_binary) require_utf8(text, files.path);
  digest.update(text.data(), text.size());
  if (name == "tokenizer.json") {
    files.tokenizer = parse(text, files.path);
  } else if (name == "vocab.json") {
    const std::string& merges = files.files.at("merges.txt");
    require_utf8(merges, path / "merges.txt");
    digest.update(merges.data(), merges.size());
    files.tokenizer = byte_pair_parts(path, files.config, parse(text, files.path), merges);
  } else if (is_binary) {
    files.tokenizer = sentence_piece_parts(text, files.path, files.config);
  } else {
    files.tokenizer = word_piece_parts(path, files.config, text);
  }
  files.digest = digest.finish();
  files.chat_templates = read_chat_templates(folder, files.config);
  return files;
}

}  // namespace weft::tokenizer
