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
  // The other files of a folder, which are not read; hidden ones are not among them.
  std::vector<std::string> left_out;

  std::string path(size_t file) const { return folder + "/" + files[file]; }
  // Returns the path of a file as it follows from the one that was given.
  std::string shown(size_t file) const;
};

// Returns the files of a source (TextSource says which). Throws NOT_FOUND if there are none, INVALID_ARGUMENT
// for what holds no text or has a known format that is not read, such as Parquet; but not with
// `of_any_format`.
TextFiles find_text_files(const std::string& path, bool of_any_format = false);

// Throws INVALID_ARGUMENT for a file of a known format of data that Weft does not read, as its name tells.
// `given` is the path that stands for it.
void refuse_other_format(const std::string& file, const std::string& given);

// Returns a line that names the files that are left out; empty if there are none. `with_text`: whether files
// of text and tables are read beside those of JSON.
std::string line_of_left_out(const TextFiles& files, bool with_text = true);

// Returns the extension of a file with its dot, in lower case.
std::string extension_of(const std::string& file);

// Returns whether this file has JSON: a record in each line, or one array.
bool has_json_lines(const std::string& file);
// Returns whether this file has a table of text, CSV or TSV.
bool has_table(const std::string& file);
// Returns the extensions of files of JSON for messages: ".json, ... or .ndjson".
std::string json_extensions();

}  // namespace weft::data
