#include "text/text_files.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "loader/shared_checks.hpp"

namespace weft::data {

namespace fs = std::filesystem;

namespace {

constexpr const char* kJsonLines[] = {".json", ".jsonl", ".jsonlines", ".ndjson"};
constexpr const char* kTables[] = {".csv", ".tsv"};
constexpr const char* kText[] = {".txt", ".text", ".md", ".rst"};

// Files of data that would be learned with all their punctuation, and what to do with them.
constexpr std::pair<const char*, const char*> kOtherFormats[] = {
    {".json5", "JSON5"},
    {".jsonc", "JSON with comments"},
    {".parquet", "a table"},
    {".arrow", "a table"},
};
constexpr const char* kCompressed[] = {".gz", ".zst", ".xz", ".bz2", ".zip", ".lz4"};

bool has_extension(const std::string& file, const auto& extensions) {
  return std::any_of(std::begin(extensions), std::end(extensions),
                     [&](const char* extension) { return extension_of(file) == extension; });
}

void refuse_other_data(const std::string& file, const std::string& given) {
  if (file.ends_with(".bin") || file.ends_with(".safetensors"))
    fail(WEFT_INVALID_ARGUMENT,
         "{}: {} holds no text; files of tokens and tensors are given alone, without other --data", given,
         file == given ? "it" : file);
  refuse_other_format(file, given);
}

// Returns the files below `folder` that `wanted` accepts by their relative path.
std::vector<std::string> files_below(const fs::path& folder, bool recursively, const auto& wanted) {
  std::vector<std::string> files;
  const auto hidden = [](const fs::path& path) { return path.filename().string().starts_with('.'); };
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const bool is_folder = entry->is_directory(error);
    if (is_folder && (!recursively || hidden(entry->path()) || entry.depth() > 64))
      entry.disable_recursion_pending();
    const std::string file = entry->path().lexically_relative(folder).string();
    if (!is_folder && !hidden(entry->path()) && wanted(file)) files.push_back(file);
  }
  if (error) fail(WEFT_PERMISSION_DENIED, "{}: {}", folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_pattern(const std::string& path) {
  return path.find_first_of("*?[") != std::string::npos;
}

// A pattern may have wildcards in the names of folders; the files are below the folder before the first one.
TextFiles matching_files(const std::string& given, const fs::path& whole) {
  TextFiles found{.name = given};
  fs::path folder, rest;
  for (const fs::path& part : whole) (rest.empty() && !is_pattern(part.string()) ? folder : rest) /= part;
  found.folder = folder.string();
  found.pattern = rest.string();
  if (fs::is_directory(folder))
    found.files =
        files_below(folder, found.pattern.find('/') != std::string::npos, [&](const std::string& file) {
          return ::fnmatch(found.pattern.c_str(), file.c_str(), FNM_PATHNAME) == 0;
        });
  if (found.files.empty()) fail(WEFT_NOT_FOUND, "{}: no file has such a name (--data)", given);
  return found;
}

}  // namespace

std::string TextFiles::shown(size_t file) const {
  std::error_code ignored;
  if (pattern.empty()) return (fs::path(name) / files[file]).string();
  if (files[file] == pattern && !(is_pattern(name) && !fs::exists(name, ignored))) return name;
  fs::path given;
  for (const fs::path& part : fs::path(name)) {
    if (is_pattern(part.string())) break;
    given /= part;
  }
  return (given / files[file]).string();
}

std::string extension_of(const std::string& file) {
  std::string extension = fs::path(file).extension().string();
  for (char& letter : extension)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return extension;
}

bool has_json_lines(const std::string& file) {
  return has_extension(file, kJsonLines);
}

bool has_table(const std::string& file) {
  return has_extension(file, kTables);
}

std::string json_extensions() {
  return alternatives({std::begin(kJsonLines), std::end(kJsonLines)});
}

void refuse_other_format(const std::string& file, const std::string& given) {
  const std::string extension = extension_of(file), subject = file == given ? "it" : file;
  for (const auto& [other, what] : kOtherFormats)
    if (extension == other)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: {} is {} by its name, which Weft does not read; convert it to CSV, or to JSON lines, one "
           "{{\"text\": ...}}, {{\"prompt\": ..., \"completion\": ...}} or {{\"messages\": ...}} a line in a "
           ".jsonl file, or read it with a library (--dataset); to train on its characters as they are, "
           "rename it to end in .txt",
           given, subject, what);
  if (has_extension(file, kCompressed))
    fail(WEFT_INVALID_ARGUMENT, "{}: {} is compressed by its name; decompress it first", given, subject);
}

std::string line_of_left_out(const TextFiles& files, bool with_text) {
  constexpr size_t kMostNames = 5;
  if (files.left_out.empty()) return "";
  const size_t named = std::min(files.left_out.size(), kMostNames), more = files.left_out.size() - named;
  std::string names = fmt::format(
      "{}",
      fmt::join(files.left_out.begin(), files.left_out.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  if (more > 0) names += fmt::format(" and {} more", more);
  std::vector<std::string> read(std::begin(kJsonLines), std::end(kJsonLines));
  if (with_text) read.insert(read.end(), std::begin(kTables), std::end(kTables));
  if (with_text) read.insert(read.begin(), std::begin(kText), std::end(kText));
  return fmt::format("{}: {} file{} left out, which {} in {}: {}", files.name, files.left_out.size(),
                     files.left_out.size() == 1 ? "" : "s",
                     files.left_out.size() == 1 ? "does not end" : "do not end", alternatives(read), names);
}

TextFiles find_text_files(const std::string& path, bool of_any_format) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(path, ignored).lexically_normal();
  TextFiles found{.name = path};
  if (!path.empty() && fs::is_directory(whole, ignored)) {
    found.folder = (whole.filename().empty() ? whole.parent_path() : whole).string();
    for (std::string& file : files_below(found.folder, true, [](const std::string&) { return true; }))
      (has_extension(file, kText) || has_json_lines(file) || has_table(file) ? found.files : found.left_out)
          .push_back(std::move(file));
    if (found.files.empty())
      fail(WEFT_NOT_FOUND,
           "{}: the folder has no text: no file ends in {}, {} or {} (--data); give a pattern, such as "
           "\"{}/*.log\"",
           path, fmt::join(kText, ", "), fmt::join(kJsonLines, ", "), fmt::join(kTables, ", "), path);
    return found;
  }
  if (is_pattern(path) && !fs::exists(whole, ignored)) {
    found = matching_files(path, whole);
  } else {
    check_is_file(path);
    found.folder = whole.parent_path().string();
    found.pattern = whole.filename().string();
    found.files = {found.pattern};
  }
  if (of_any_format) return found;
  for (size_t i = 0; i < found.files.size(); ++i) refuse_other_data(found.shown(i), path);
  return found;
}

}  // namespace weft::data
