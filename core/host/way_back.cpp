#include "host/way_back.hpp"

#include "base/text.hpp"
#include "host/inspect.hpp"

namespace weft::host {
namespace {

bool can_be_loaded(const Catalogue& catalogue, const Installed& installed, const HostFacts& facts) {
  if (installed.problem || !installed.manifest) return false;
  try {
    for (const LibraryEntry& library : installed.manifest->libraries)
      inspect({&installed, &library}, catalogue.paths.roots[installed.root].path, facts);
  } catch (const Error&) {
    return false;
  }
  return true;
}

const Installed* find_older(const Catalogue& catalogue, const Installed& failed, const HostFacts& facts) {
  const Installed* newest = nullptr;
  for (const Installed& other : catalogue.plugins) {
    const bool is_older = other.id == failed.id && compare_versions(other.version, failed.version) < 0 &&
                          !is_pre_release(other.version);
    const bool is_newest = newest == nullptr || compare_versions(other.version, newest->version) > 0;
    if (is_older && is_newest && can_be_loaded(catalogue, other, facts)) newest = &other;
  }
  return newest;
}

}  // namespace

std::string way_back(const Catalogue& catalogue, const HostFacts& facts, const Installed& failed,
                     bool is_named) {
  const Installed* const older = find_older(catalogue, failed, facts);
  if (older == nullptr) return "";
  const std::string text = fmt::format("; {} {} is installed, too: ", older->id, older->version);
  if (is_named || catalogue.pins.file.empty())
    return text + fmt::format("name version {0} in the job, as in NAME@{0}", older->version);
  return text + fmt::format("`weft plugins pin {}@{}` chooses it", older->id, older->version);
}

}  // namespace weft::host
