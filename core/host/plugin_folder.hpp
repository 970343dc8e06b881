// Changes the plugin folder of the user: installs and removes plugins, and pins versions.
//
// A process that is killed at any moment leaves the folder as it was before or as it is afterwards: plugins
// are complete when they get their names, and lose them before they are deleted. What lies in it under other
// names is removed by the next process that changes the folder.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "host/host_facts.hpp"
#include "host/search_paths.hpp"

namespace weft::host {

// Each function looks at what is installed while no other process can change the user's folder. It throws
// FAILED_PRECONDITION if this folder is not one of the search paths, and UNAVAILABLE while another process
// changes it.

// Installs the plugin in a folder or an archive. Who can write it, its digests and everything else that can
// be checked without loading is checked first. If a file ARCHIVE.sha256 lies beside an archive, the archive
// must have this digest; if there is a SHA256SUMS in the plugin, it must name every other file. Throws
// ALREADY_EXISTS if this version is installed there. Returns {id, version, folder, pinned?}: the request of a
// pin that means other versions.
nlohmann::json install_plugin(const SearchPaths& paths, const HostFacts& facts,
                              const std::filesystem::path& source);

// Removes a version, "alpha@1.0.0", or the only one if none is named. Throws FAILED_PRECONDITION if a pin
// needs it. Returns {id, version, folder}.
nlohmann::json remove_plugin(const SearchPaths& paths, std::string_view asked);

// Pins a plugin, by its id or a name that it provides, to the versions that are asked for, of which one must
// be installed and not damaged. Returns {id, pinned, version}: the request and the newest version that it
// means.
nlohmann::json pin_plugin(const SearchPaths& paths, std::string_view asked);

// Removes the pin of a plugin. Returns {id, pinned}: what it was pinned to.
nlohmann::json unpin_plugin(const SearchPaths& paths, std::string_view name);

}  // namespace weft::host
