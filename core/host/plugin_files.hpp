// Copies the files of a plugin to a new folder.
#pragma once

#include <filesystem>
#include <set>

#include <sys/types.h>

namespace weft::host {

// Creates a folder and those above it, which only their owner can write. Throws UNAVAILABLE.
void make_folders(const std::filesystem::path& folder);

// Copies the files of a plugin from a folder, or from an archive that holds one plugin, into the folder
// `target`, which exists. Returns the folder of its plugin.json: `target` or one in it. All files are on the
// disk then, and only their owner can write them. Throws PERMISSION_DENIED for a source that others than
// `owners` can write, INVALID_ARGUMENT for links, devices and names that are not plain, and DATA_LOSS for a
// digest that differs.
std::filesystem::path copy_plugin(const std::filesystem::path& source, const std::filesystem::path& target,
                                  const std::set<uid_t>& owners);

// Forces a folder and the names in it to the disk. Throws UNAVAILABLE.
void sync_folder(const std::filesystem::path& folder);

}  // namespace weft::host
