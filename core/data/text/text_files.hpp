// The files that a path of --data stands for.
#pragma once

#include <string>
#include <vector>

namespace weft::data {

struct TextFiles {
  std::string name;                // the path that was given, for messages
  std::string folder;              // that all files are in, absolute
  std::string pattern;             // what names them in that folder: a file, a pattern, or empty for all
  std::vector<std::string> files;  // relative to the folder, in the order of their names

  std::string path(size_t file) const { return folder + "/" + files[file]; }
  // Returns the path of a file as it follows from the one that was given.
  std::string shown(size_t file) const;
};

// Returns the files of a source (TextSource says which). Throws NOT_FOUND if there are none, INVALID_ARGUMENT
// for what holds no text.
TextFiles find_text_files(const std::string& path);

// Returns whether the lines of this file are JSON.
bool has_json_lines(const std::string& file);

}  // namespace weft::data
