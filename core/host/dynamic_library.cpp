#include "host/dynamic_library.hpp"

#include <link.h>

#include <boost/dll/shared_library.hpp>

namespace weft::host {

using boost::dll::shared_library;

DynamicLibrary::DynamicLibrary(const std::filesystem::path& path)
    // Never deleted, so never closed. The throwing constructor: it is the one that keeps the text of dlerror.
    : library_(
          new shared_library(path, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local)) {}

void* DynamicLibrary::find(const std::string& symbol) const {
  const auto* library = static_cast<const shared_library*>(library_);
  if (!library->has(symbol)) return nullptr;
  return &library->get<char>(symbol);
}

std::vector<std::string> mapped_libraries(std::string_view stem) {
  struct Search {
    std::string name;
    std::vector<std::string> found;
  } search = {std::string(stem) + ".so", {}};
  const auto visit = [](dl_phdr_info* info, size_t, void* data) {
    Search& search = *static_cast<Search*>(data);
    const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    const std::string name = path.substr(path.rfind('/') + 1);
    if (name == search.name || name.starts_with(search.name + ".")) search.found.push_back(path);
    return 0;
  };
  dl_iterate_phdr(visit, &search);
  return search.found;
}

}  // namespace weft::host
