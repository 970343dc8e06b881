#include "loader/class_folder.hpp"

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "loader/random.hpp"

namespace weft::data {

namespace fs = std::filesystem;

namespace {

std::string layout(const FileKind& kind) {
  return fmt::format("{}s must be in one folder per class: FOLDER/CLASS/FILE{}", kind.word,
                     kind.extensions.front());
}

// An entry whose kind cannot be told, such as a dangling link, counts as neither.
bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

FileClass files_in(const fs::path& folder, const FileKind& kind) {
  FileClass found{folder.filename().string(), {}};
  each_visible_entry(folder, [&](const fs::directory_entry& entry) {
    if (is_folder(entry))
      fail(WEFT_INVALID_ARGUMENT, "{}: this is a folder inside of a class; {}", entry.path().string(),
           layout(kind));
    if (!kind.has_name_of(entry.path().string()))
      fail(WEFT_INVALID_ARGUMENT,
           "{}: this is no {} by its name; a class has only {} files, so convert or remove it",
           entry.path().string(), kind.word, fmt::join(kind.extensions, ", "));
    found.files.push_back(entry.path().filename().string());
  });
  if (found.files.empty())
    fail(WEFT_INVALID_ARGUMENT, "{}: this class has no {}s; remove the folder, or add {} files",
         folder.string(), kind.word, fmt::join(kind.extensions, ", "));
  std::sort(found.files.begin(), found.files.end());
  return found;
}

}  // namespace

bool FileKind::has_name_of(const std::string& path) const {
  std::string extension = fs::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](char letter) { return letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter; });
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

void each_visible_entry(const std::string& folder,
                        const std::function<void(const fs::directory_entry& entry)>& take) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (!entry->path().filename().string().starts_with('.')) take(*entry);
  if (error) fail(WEFT_PERMISSION_DENIED, "{}: the folder cannot be read: {}", folder, error.message());
}

void require_folder(const std::string& path, const FileKind& kind, const std::string& layout) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    fail(WEFT_NOT_FOUND, "{}: there is no such folder of {}s", path.empty() ? "\"\"" : path, kind.word);
  if (status.type() != fs::file_type::directory)
    fail(WEFT_INVALID_ARGUMENT, "{}: this is no folder; {}", path, layout);
}

std::vector<FileClass> find_classes(const std::string& path, const FileKind& kind) {
  require_folder(path, kind, layout(kind));
  std::vector<fs::path> folders;
  each_visible_entry(path, [&](const fs::directory_entry& entry) {
    if (is_folder(entry)) return folders.push_back(entry.path());
    if (kind.has_name_of(entry.path().string()))
      fail(WEFT_INVALID_ARGUMENT, "{}: this {} is in no class; {}", entry.path().string(), kind.word,
           layout(kind));
  });
  if (folders.empty()) fail(WEFT_INVALID_ARGUMENT, "{}: the folder has no classes; {}", path, layout(kind));
  std::sort(folders.begin(), folders.end());
  std::vector<FileClass> classes;
  for (const fs::path& folder : folders) classes.push_back(files_in(folder, kind));
  return classes;
}

std::vector<int64_t> labels_of(const std::string& path, const std::vector<FileClass>& classes,
                               const std::map<std::string, int64_t>& label_of, int64_t num_labels) {
  std::vector<int64_t> labels;
  for (const FileClass& files : classes) {
    const auto found = label_of.find(files.name);
    if (found == label_of.end() && !label_of.empty())
      fail(WEFT_INVALID_ARGUMENT,
           "{}: the folder \"{}\" is no class of the model, whose label2id begins with \"{}\"; rename the "
           "folder, or name all classes in label2id",
           path, printable(files.name, 60), printable(label_of.begin()->first, 60));
    labels.push_back(label_of.empty() ? static_cast<int64_t>(labels.size()) : found->second);
    if (labels.back() < 0 || (num_labels > 0 && labels.back() >= num_labels))
      fail(WEFT_INVALID_ARGUMENT,
           "{}: the class \"{}\" is label {} of {} classes, but the model has {} labels; give a model with "
           "more (num_labels or id2label in config.json), or fewer classes",
           path, printable(files.name, 60), labels.back(), classes.size(), num_labels);
  }
  return labels;
}

std::vector<std::string> files_of_part(const FileClass& whole, Part part, double held_out, int64_t seed) {
  if (part == Part::kAll) return whole.files;
  uint64_t key = mixed(static_cast<uint64_t>(seed));
  for (const char letter : whole.name) key = mixed(key + static_cast<unsigned char>(letter));
  SampleRandom random(static_cast<int64_t>(key), 0, 0);
  std::vector<std::string> shuffled = whole.files;
  for (size_t left = shuffled.size(); left > 1; --left)
    std::swap(shuffled[left - 1], shuffled[draw_below(left, random)]);
  const auto rounded = static_cast<size_t>(held_out * static_cast<double>(shuffled.size()) + 0.5);
  const auto border = shuffled.begin() + static_cast<std::ptrdiff_t>(std::min(rounded, shuffled.size() - 1));
  std::vector<std::string> files =
      part == Part::kHeldOut ? std::vector(shuffled.begin(), border) : std::vector(border, shuffled.end());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace weft::data
