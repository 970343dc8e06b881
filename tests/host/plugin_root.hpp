// A folder of plugins that a test fills.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/sha256.hpp"
#include "host/catalogue.hpp"
#include "host/host_facts.hpp"
#include "host/resolve.hpp"
#include "host/temporary.hpp"

namespace weft::testing {

inline constexpr const char* kTorchTag = "torch=2.11.0";

class PluginRoot {
 public:
  // Installs one of the test libraries ("alpha_1.0.0") as <id>/<version>, with a manifest that fits it;
  // `change` may damage the manifest.
  template <typename Change>
  std::filesystem::path install(const std::string& library, const std::string& id, const std::string& version,
                                Change change) {
    const std::filesystem::path folder = path() / id / version;
    std::filesystem::create_directories(folder);
    const std::filesystem::path file = folder / "plugin.so";
    std::filesystem::copy_file(std::string(TEST_LIBRARIES) + "/" + library + ".so", file);
    chmod(file.c_str(), 0755);
    for (auto part = folder; part != path(); part = part.parent_path()) chmod(part.c_str(), 0755);
    nlohmann::json manifest = {{"manifest_version", 1},
                               {"id", id},
                               {"version", version},
                               {"abi", {{"major", 0}, {"minor_min", 2}, {"minor", 2}}},
                               {"libraries",
                                {{{"file", "plugin.so"},
                                  {"kind", "shard_policy"},
                                  {"tier", "c"},
                                  {"provides", {"family"}},
                                  {"sha256", sha256_file(file)}}}}};
    change(manifest);
    std::ofstream(folder / "plugin.json") << manifest.dump(2);
    chmod((folder / "plugin.json").c_str(), 0644);
    return folder;
  }
  std::filesystem::path install(const std::string& library, const std::string& id,
                                const std::string& version) {
    return install(library, id, version, [](nlohmann::json&) {});
  }
  const std::filesystem::path& path() const { return folder_.path(); }

  host::Catalogue scan() const {
    host::SearchPaths paths;
    paths.roots = {{path(), "test"}};
    return host::scan(paths);
  }
  const host::LoadedLibrary& load(const std::string& name = "family", const std::string& version = "",
                                  const std::string& kind = "shard_policy") const {
    return host::resolve(scan(), facts(), kind, name, version);
  }
  static host::HostFacts facts() {
    return {host::kHostAbi, "0.1.0", kTorchTag, "build", "/nowhere/libweft_engine.so", "/nowhere"};
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace weft::testing
