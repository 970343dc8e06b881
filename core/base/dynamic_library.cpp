#include "base/dynamic_library.hpp"

#include <link.h>

#include <boost/dll/shared_library.hpp>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace weft {

using boost::dll::shared_library;

namespace {

// Keeps `library` open until the process ends, also during static destructors. The pointer stays reachable,
// so that leak checkers do not report it.
const shared_library& keep(shared_library library) {
  static std::mutex mutex;
  static auto& kept = *new std::deque<shared_library>;
  const std::lock_guard lock(mutex);
  return kept.emplace_back(std::move(library));
}

// Returns what the dynamic linker said, from Boost's text around it: "boost::dll::shared_library::load()
// failed (dlerror system message: TEXT): Bad file descriptor".
std::string text_of_dlerror(std::string text) {
  constexpr std::string_view kBefore = "dlerror system message: ";
  const size_t begin = text.find(kBefore), end = text.rfind("): ");
  if (begin == std::string::npos || end == std::string::npos || end < begin) return text;
  return text.substr(begin + kBefore.size(), end - begin - kBefore.size());
}

boost::dll::load_mode::type mode_for(const std::filesystem::path& path) {
  namespace load_mode = boost::dll::load_mode;
  const auto mode = load_mode::rtld_now | load_mode::rtld_local;
  return path.is_absolute() ? mode : mode | load_mode::search_system_folders;
}

}  // namespace

DynamicLibrary::DynamicLibrary(const std::filesystem::path& path) try
    // Uses the constructor that throws, because only its exception has the text of dlerror.
    : library_(&keep(shared_library(path, mode_for(path)))) {
} catch (const std::exception& error) {
  throw std::runtime_error(text_of_dlerror(error.what()));
}

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

}  // namespace weft
