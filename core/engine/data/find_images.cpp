// Lists the images of a folder.
#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "data/image_folder.hpp"

namespace weft::data {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLayout = "images must be in one folder per class: FOLDER/CLASS/FILE.png";

bool is_image_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](char letter) { return letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter; });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

// Calls `take` with each entry of a folder whose name does not begin with a dot.
template <class Take>
void each_entry(const fs::path& folder, const Take& take) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (!entry->path().filename().string().starts_with('.')) take(*entry);
  if (error)
    fail(WEFT_PERMISSION_DENIED, "{}: the folder cannot be read: {}", folder.string(), error.message());
}

// An entry whose kind cannot be told, such as a dangling link, counts as neither.
bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

ImageClass images_in(const fs::path& folder) {
  ImageClass images{folder.filename().string(), {}};
  each_entry(folder, [&](const fs::directory_entry& entry) {
    if (is_folder(entry))
      fail(WEFT_INVALID_ARGUMENT, "{}: this is a folder inside of a class; {}", entry.path().string(),
           kLayout);
    if (!is_image_name(entry.path()))
      fail(WEFT_INVALID_ARGUMENT,
           "{}: this is no image by its name; a class has only .png, .jpg and .jpeg files, so convert or "
           "remove it",
           entry.path().string());
    images.files.push_back(entry.path().filename().string());
  });
  if (images.files.empty())
    fail(WEFT_INVALID_ARGUMENT, "{}: this class has no images; remove the folder, or add .png or .jpg files",
         folder.string());
  std::sort(images.files.begin(), images.files.end());
  return images;
}

}  // namespace

std::vector<ImageClass> find_images(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    fail(WEFT_NOT_FOUND, "{}: there is no such folder of images", path.empty() ? "\"\"" : path);
  if (status.type() != fs::file_type::directory)
    fail(WEFT_INVALID_ARGUMENT, "{}: this is no folder; {}", path, kLayout);
  std::vector<fs::path> folders;
  each_entry(path, [&](const fs::directory_entry& entry) {
    if (is_folder(entry)) return folders.push_back(entry.path());
    if (is_image_name(entry.path()))
      fail(WEFT_INVALID_ARGUMENT, "{}: this image is in no class; {}", entry.path().string(), kLayout);
  });
  if (folders.empty()) fail(WEFT_INVALID_ARGUMENT, "{}: the folder has no classes; {}", path, kLayout);
  std::sort(folders.begin(), folders.end());
  std::vector<ImageClass> classes;
  for (const fs::path& folder : folders) classes.push_back(images_in(folder));
  return classes;
}

}  // namespace weft::data
