#include "tokenizer/train_files.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/made_folder.hpp"
#include "base/replaced_file.hpp"
#include "base/text.hpp"

namespace weft::tokenizer {

namespace {

using json = nlohmann::ordered_json;  // in the order in which Hugging Face writes them

namespace fs = std::filesystem;

// Replaces all of these files or, where the disk has no room for them, none.
void replace(const fs::path& folder, const std::vector<std::pair<std::string, std::string>>& files) {
  const MadeFolder made(folder);
  std::vector<ReplacedFile> written;
  for (const auto& [name, text] : files) {
    written.emplace_back(folder / name).write(text);
    written.back().sync();
  }
  for (ReplacedFile& file : written) file.commit();
}

}  // namespace

void write_tokenizer_files(const std::string& folder, const std::vector<std::string>& vocabulary,
                           const std::vector<std::pair<std::string, std::string>>& merges,
                           const std::vector<std::string>& special_tokens) {
  json added = json::array(), ids = json::object(), pairs = json::array();
  for (size_t i = 0; i < special_tokens.size(); ++i)
    added.push_back({{"id", i},
                     {"content", special_tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  // Appended without a search for equal keys, which would take quadratic time.
  auto& members = ids.get_ref<json::object_t&>();
  for (size_t i = 0; i < vocabulary.size(); ++i) members.push_back({vocabulary[i], i});
  for (const auto& [left, right] : merges) pairs.push_back({left, right});
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", std::move(ids)},
                      {"merges", std::move(pairs)}};
  const json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", std::move(added)},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", byte_level},
                          {"post_processor", nullptr},
                          {"decoder", byte_level},
                          {"model", model}};
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (!special_tokens.empty()) {
    config["bos_token"] = special_tokens.front();
    config["eos_token"] = special_tokens.front();
  }
  replace(folder,
          {{"tokenizer.json", tokenizer.dump(2) + '\n'}, {"tokenizer_config.json", config.dump(2) + '\n'}});
}

}  // namespace weft::tokenizer
