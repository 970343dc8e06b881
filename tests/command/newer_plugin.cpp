#include "command/newer_plugin.hpp"

#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/sha256.hpp"

namespace weft::test {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  chmod(path.c_str(), 0644);
}

}  // namespace

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

fs::path make_newer(const fs::path& built, const fs::path& to) {
  fs::create_directories(to);
  json manifest = json::parse(text_of(built / "plugin.json"));
  manifest["version"] = kNew;
  for (json& library : manifest["libraries"]) {
    const std::string name = library["file"];
    std::string bytes = text_of(built / name);
    for (size_t at = 0; (at = bytes.find(kOld, at)) != std::string::npos;)
      bytes.replace(at, std::string(kNew).size(), kNew);
    write(to / name, bytes);
    library["sha256"] = sha256_file(to / name);
  }
  write(to / "plugin.json", manifest.dump(2));
  return to;
}

}  // namespace weft::test
