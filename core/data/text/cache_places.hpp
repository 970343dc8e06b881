// Where token ids are kept, and which files there are believed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/text_files.hpp"

namespace weft::data {

// Returns the files that may keep the ids of a source, the best place first: in the folder .weft_cache beside
// the data, and below $XDG_CACHE_HOME/weft or ~/.cache/weft. `settings` is text that decides the ids.
std::vector<std::filesystem::path> cache_places(const TextFiles& files, const std::string& settings);

// Opens a file in such a place for reading. Returns its descriptor, or -1 if there is none. Whoever writes
// the ids decides what a model learns, so throws PERMISSION_DENIED, with the path and the reason, unless file
// and folder belong to this user or to root, or to a group that the user is in and the folder has. Throws it
// for a link and for what is no regular file, too.
int open_believed(const std::filesystem::path& file);

// Makes the folder of such a file. Throws PERMISSION_DENIED, with the folder and the reason, if a file in it
// could not be written or would not be believed.
void make_believed_folder(const std::filesystem::path& file);

}  // namespace weft::data
