#include "text/text_files.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "loader/shared_checks.hpp"

namespace weft::data {

namespace fs = std::filesystem;

namespace {

constexpr const char* kJsonLines[] = {".json", ".jsonl", ".ndjson"};
constexpr const char* kText[] = {".txt", ".text", ".md", ".rst"};

bool has_extension(const std::string& file, const auto& extensions) {
  return std::any_of(std::begin(extensions), std::end(extensions),
                     [&](const char* extension) { return fs::path(file).extension() == extension; });
}

void refuse_other_data(const std::string& file, const std::string& given) {
  if (file.ends_with(".bin") || file.ends_with(".safetensors"))
    fail(WEFT_INVALID_ARGUMENT,
         "{}: {} holds no text; files of tokens and tensors are given alone, without other --data", given,
         file == given ? "it" : file);
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

bool has_json_lines(const std::string& file) {
  return has_extension(file, kJsonLines);
}

TextFiles find_text_files(const std::string& path) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(path, ignored).lexically_normal();
  TextFiles found{.name = path};
  if (!path.empty() && fs::is_directory(whole, ignored)) {
    found.folder = (whole.filename().empty() ? whole.parent_path() : whole).string();
    found.files = files_below(found.folder, true, [](const std::string& file) {
      return has_extension(file, kText) || has_extension(file, kJsonLines);
    });
    if (found.files.empty())
      fail(WEFT_NOT_FOUND,
           "{}: the folder has no text: no file ends in {} or {} (--data); give a pattern, such as "
           "\"{}/*.log\"",
           path, fmt::join(kText, ", "), fmt::join(kJsonLines, ", "), path);
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
  for (const std::string& file : found.files) refuse_other_data(found.files.size() == 1 ? path : file, path);
  return found;
}

}  // namespace weft::data
