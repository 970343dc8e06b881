// Folders of files for data sets, such as one folder of images per class.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "weft/data/part.hpp"

namespace weft::data {

// The files that a data set reads, by their names.
struct FileKind {
  std::string word;  // "image"
  std::vector<std::string>
      extensions;  // in lower case, with the dot; the first one is the example in messages

  bool has_name_of(const std::string& path) const;
};

// The files of one class.
struct FileClass {
  std::string name;                // of its folder
  std::vector<std::string> files;  // their names, sorted
};

// Calls `take` with each entry of a folder whose name does not begin with a dot. Throws PERMISSION_DENIED.
void each_visible_entry(const std::string& folder,
                        const std::function<void(const std::filesystem::directory_entry& entry)>& take);

// Throws NOT_FOUND, or INVALID_ARGUMENT with `layout`, unless `path` is a folder.
void require_folder(const std::string& path, const FileKind& kind, const std::string& layout);

// Returns the classes of a folder in the order of their names. Throws NOT_FOUND without the folder,
// INVALID_ARGUMENT for one without classes, a class without files, and entries of classes that are no files
// of this kind.
std::vector<FileClass> find_classes(const std::string& path, const FileKind& kind);

// Returns the label of each class: by its name in `label_of`, or if that is empty, by the order. Throws
// INVALID_ARGUMENT for a class without a label, and for labels that are not less than `num_labels`, unless
// that is 0.
std::vector<int64_t> labels_of(const std::string& path, const std::vector<FileClass>& classes,
                               const std::map<std::string, int64_t>& label_of, int64_t num_labels);

// Returns the files of a class that belong to a part, in the same order. Of n files, `held_out` n are held
// out, rounded, but never all of them.
std::vector<std::string> files_of_part(const FileClass& whole, Part part, double held_out, int64_t seed);

}  // namespace weft::data
