#include "weft/tokenizer.hpp"

#include <atomic>
#include <filesystem>

#include "base/json.hpp"
#include "base/replaced_file.hpp"
#include "base/text.hpp"
#include "tokenizer/file_tokenizer.hpp"

namespace weft {

using namespace tokenizer;

namespace {

std::atomic<ClassSource> class_source = nullptr;

// Returns the "tokenizer_class" of tokenizer_config.json; empty if there is none.
std::string class_of(const std::string& folder) {
  const Json config = read_tokenizer_config(folder);
  const auto name = config.find("tokenizer_class");
  return name != config.end() && name->is_string() ? name->get<std::string>() : "";
}

// Returns how the library of a class opens a folder; empty if no library has the class.
OpenFolder library_of(const std::string& class_name) {
  const ClassSource source = class_source;
  return source == nullptr || class_name.empty() ? OpenFolder() : source(class_name);
}

}  // namespace

void tokenizer::set_class_source(ClassSource source) {
  class_source = source;
}

Tokenizer Tokenizer::open(const std::string& folder) {
  Tokenizer opened;
  try {
    const std::string class_name = class_of(folder);
    const OpenFolder open = library_of(class_name);
    if (!open && !class_name.empty() && find_vocabulary(folder).empty())
      fail(WEFT_NOT_FOUND,
           "{} has no tokenizer: its tokenizer_config.json names the class \"{}\", which no plugin has, and "
           "there is "
           "none of tokenizer.json, vocab.json with merges.txt, vocab.txt, tokenizer.model",
           folder, printable(class_name, 80));
    opened.state_ = std::make_shared<const State>(
        State{open ? open(folder) : std::make_unique<const FileTokenizer>(read_folder(folder))});
  } catch (const Json::exception& error) {
    fail(WEFT_DATA_LOSS, "{}: {}", find_vocabulary(folder), text_of(error));
  }
  return opened;
}

bool Tokenizer::is_in(const std::string& folder) {
  return !find_vocabulary(folder).empty() || library_of(class_of(folder));
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  return state_->implementation->encode(text, add_special_tokens);
}

std::vector<int64_t> Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                            std::vector<int64_t>* types) const {
  return state_->implementation->encode_pair(first, second, types);
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const {
  return state_->implementation->decode(ids, skip_special_tokens);
}

int64_t Tokenizer::vocabulary_size() const {
  return state_->implementation->vocabulary_size();
}

std::optional<int64_t> Tokenizer::id_of(std::string_view token) const {
  return state_->implementation->id_of(token);
}

std::string Tokenizer::token_of(int64_t id) const {
  return state_->implementation->token_of(id);
}

std::optional<int64_t> Tokenizer::id_of(Role role) const {
  return state_->implementation->facts().roles.at(static_cast<size_t>(role));
}

bool Tokenizer::pads_left() const {
  return state_->implementation->facts().pads_left;
}

bool Tokenizer::truncates_left() const {
  return state_->implementation->facts().truncates_left;
}
std::string Tokenizer::name() const {
  return state_->implementation->facts().source;
}
std::string Tokenizer::digest() const {
  return state_->implementation->facts().digest;
}
std::string Tokenizer::chat_template(std::string_view name) const {
  const ChatTemplates& templates = state_->implementation->facts().chat_templates;
  const auto found = templates.find(name);
  return found == templates.end() ? "" : found->second;
}

void Tokenizer::save(const std::string& folder) const {
  for (const auto& [name, bytes] : state_->implementation->facts().files) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::error_code ignored;  // the file says what is wrong
    std::filesystem::create_directory(path.parent_path(), ignored);
    replace_file(path, bytes);
  }
}

}  // namespace weft
