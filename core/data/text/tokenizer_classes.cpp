// Tokenizers of libraries of plugin kind "tokenizer" (weft/tokenizer.h).
#include <fmt/format.h>

#include <filesystem>

#include "base/appended.hpp"
#include "base/error_sink.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "plugins.hpp"
#include "tokenizer/folder.hpp"
#include "tokenizer/implementation.hpp"
#include "tokenizer/utf8.hpp"
#include "weft/tokenizer.h"

namespace weft {

namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestFile = size_t{1} << 30;
constexpr int64_t kMostTokens = int64_t{1} << 31;

using Ids = Appended<std::vector<int64_t>>;
using Text = AppendedText;

weft_id_sink sink_of(Ids& ids) {
  return {
      &ids, [](void* context, const int64_t* values, uint64_t count) {
        static_cast<Ids*>(context)->add([&](auto& all) { all.insert(all.end(), values, values + count); });
      }};
}

std::string repaired(std::string_view text) {
  return tokenizer::is_utf8(text) ? std::string(text) : tokenizer::repaired_utf8(text);
}

class LibraryTokenizer : public tokenizer::Implementation {
 public:
  LibraryTokenizer(const weft_tokenizer_class& functions, const weft_loaded& library, const std::string& name,
                   const std::string& folder);

  std::vector<int64_t> encode(std::string_view text, bool add_special_tokens) const override;
  std::vector<int64_t> encode_pair(std::string_view first, std::string_view second,
                                   std::vector<int64_t>* types) const override;
  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const override;
  int64_t vocabulary_size() const override { return size_; }
  std::optional<int64_t> id_of(std::string_view token) const override {
    return checked(functions_.find(tokenizer_.get(), borrow(token)), "find");
  }
  std::string token_of(int64_t id) const override;

 private:
  void read_files(const std::string& folder, const std::string& identity);
  std::optional<int64_t> checked(int64_t id, const char* function) const;
  std::vector<int64_t> checked(std::vector<int64_t> ids, const char* function) const;
  [[noreturn]] void wrong(const std::string& what) const {
    fail(WEFT_FAILED_PRECONDITION, "tokenizer class {} of {}: {}", name_, path_, what);
  }

  const weft_tokenizer_class& functions_;
  const std::string name_, path_;  // of the class and of its library
  std::unique_ptr<weft_folder_tokenizer, void (*)(weft_folder_tokenizer*)> tokenizer_;
  int64_t size_ = 0;
};

LibraryTokenizer::LibraryTokenizer(const weft_tokenizer_class& functions, const weft_loaded& library,
                                   const std::string& name, const std::string& folder)
    : functions_(functions), name_(name), path_(view(library.path)), tokenizer_(nullptr, functions.close) {
  ErrorSink error;
  weft_folder_tokenizer* opened = nullptr;
  error.check(functions.open(&functions, borrow(name), borrow(folder), &opened, error),
              "tokenizer class " + name);
  tokenizer_.reset(opened);
  if (opened == nullptr) wrong("open succeeded without a tokenizer");
  size_ = functions.size(opened);
  if (size_ < 1 || size_ > kMostTokens)
    wrong(fmt::format("its size is {}, must be from 1 to {}", size_, kMostTokens));
  facts_.source = fmt::format("{} (tokenizer class {})", folder, name);
  for (uint32_t role = 0; role < WEFT_TOKEN_ROLES; ++role)
    facts_.roles.at(role) = checked(functions.role(opened, role), "role");
  const auto config = tokenizer::read_tokenizer_config(folder);
  facts_.chat_templates = tokenizer::read_chat_templates(folder, config);
  facts_.pads_left = config.value("padding_side", nlohmann::json()) == "left";
  facts_.truncates_left = config.value("truncation_side", nlohmann::json()) == "left";
  read_files(folder, plugin_identity(library));
}

void LibraryTokenizer::read_files(const std::string& folder, const std::string& identity) {
  Sha256 digest;
  const auto update = [&](const std::string& text) { digest.update(text.c_str(), text.size() + 1); };
  update(identity);
  update(name_);
  for (uint64_t index = 0;; ++index) {
    const weft_str file = functions_.file(tokenizer_.get(), index);
    if (file.data == nullptr) break;
    const std::string name(view(file));
    if (name.empty() || fs::path(name).filename() != name || name == "." || name == "..")
      wrong(fmt::format("its file {} is \"{}\", must be a name without folders", index, printable(name, 80)));
    update(name);
    std::string& bytes = facts_.files[name];
    bytes = read_file(fs::path(folder) / name, kLargestFile);
    update(sha256_hex(bytes));
  }
  for (auto& [name, text] : tokenizer::read_settings(folder)) {
    if (facts_.files.contains(name)) continue;
    update(text);
    facts_.files[name] = text;
  }
  facts_.digest = digest.finish();
}

std::optional<int64_t> LibraryTokenizer::checked(int64_t id, const char* function) const {
  if (id < -1 || id >= size_)
    wrong(fmt::format("{} returned the id {}, must be less than its size {}", function, id, size_));
  return id < 0 ? std::nullopt : std::optional(id);
}

std::vector<int64_t> LibraryTokenizer::checked(std::vector<int64_t> ids, const char* function) const {
  for (const int64_t id : ids)
    if (id < 0 || id >= size_)
      wrong(fmt::format("{} returned the id {}, must be in [0, {})", function, id, size_));
  return ids;
}

std::vector<int64_t> LibraryTokenizer::encode(std::string_view text, bool add_special_tokens) const {
  const std::string given = repaired(text);
  ErrorSink error;
  Ids ids;
  const weft_id_sink sink = sink_of(ids);
  error.check(functions_.encode(tokenizer_.get(), borrow(given), add_special_tokens, &sink, error),
              facts_.source);
  return checked(ids.take(), "encode");
}

std::vector<int64_t> LibraryTokenizer::encode_pair(std::string_view first, std::string_view second,
                                                   std::vector<int64_t>* types) const {
  if (functions_.encode_pair == nullptr)
    fail(WEFT_UNIMPLEMENTED, "{}: the class has no pairs of texts", facts_.source);
  const std::string texts[] = {repaired(first), repaired(second)};
  ErrorSink error;
  Ids ids, of_types;
  const weft_id_sink sink = sink_of(ids), type_sink = sink_of(of_types);
  error.check(
      functions_.encode_pair(tokenizer_.get(), borrow(texts[0]), borrow(texts[1]), &sink, &type_sink, error),
      facts_.source);
  std::vector<int64_t> joined = checked(ids.take(), "encode_pair"), found = of_types.take();
  if (found.size() != joined.size())
    wrong(fmt::format("encode_pair returned {} ids and {} types", joined.size(), found.size()));
  if (types != nullptr) *types = std::move(found);
  return joined;
}

std::string LibraryTokenizer::decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const {
  std::vector<int64_t> known;
  for (const int64_t id : ids)
    if (id >= 0 && id < size_) known.push_back(id);
  ErrorSink error;
  Text text;
  const weft_text_sink sink = weft::sink_of(text);
  error.check(
      functions_.decode(tokenizer_.get(), known.data(), known.size(), skip_special_tokens, &sink, error),
      facts_.source);
  return repaired(text.take());
}

std::string LibraryTokenizer::token_of(int64_t id) const {
  if (id < 0 || id >= size_) return "";
  Text text;
  const weft_text_sink sink = weft::sink_of(text);
  functions_.spelling(tokenizer_.get(), id, &sink);
  return text.take();
}

void require_functions(const weft_tokenizer_class& functions, const std::string& name,
                       const std::string& path) {
  const auto refuse = [&](const std::string& what) {
    fail(WEFT_FAILED_PRECONDITION, "tokenizer class {} of {}: {}", name, path, what);
  };
  if (functions.struct_size < WEFT_END_OF(weft_tokenizer_class, file))
    refuse(
        fmt::format("its table has {} bytes, must have at least {}; it was built for another version of Weft",
                    functions.struct_size, WEFT_END_OF(weft_tokenizer_class, file)));
  const std::pair<const char*, bool> needed[] = {
      {"open", functions.open},     {"close", functions.close}, {"encode", functions.encode},
      {"decode", functions.decode}, {"size", functions.size},   {"spelling", functions.spelling},
      {"find", functions.find},     {"role", functions.role},   {"file", functions.file}};
  for (const auto& [function, is_there] : needed)
    if (!is_there) refuse(fmt::format("its table has no function {}", function));
}

tokenizer::OpenFolder find_class(const std::string& asked) {
  const std::string name = plugin_name(asked);
  if (!is_plain_name(name)) return {};
  weft_loaded library{};
  try {
    library = load_plugin("tokenizer", asked);
  } catch (const Error& error) {
    if (error.status() == WEFT_NOT_FOUND && name == asked) return {};  // Weft may read the folder itself
    throw;
  }
  const auto& factory = plugin_factory<weft_tokenizer_factory>(library, WEFT_FACTORY_TOKENIZER);
  const weft_tokenizer_class* found = factory.find(&factory, borrow(name));
  if (found == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "{}: its factory does not find the tokenizer class {}", view(library.path),
         name);
  require_functions(*found, name, std::string(view(library.path)));
  return [=](const std::string& folder) {
    return std::make_unique<const LibraryTokenizer>(*found, library, name, folder);
  };
}

// When the engine is loaded, because a program may open a tokenizer before it does anything else.
[[maybe_unused]] const bool has_source = (tokenizer::set_class_source(find_class), true);

}  // namespace

}  // namespace weft
