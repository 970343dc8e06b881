#include "statistics.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "weft/error.hpp"

namespace weft::plugin::gemini {

std::optional<Statistics> read_statistics(const std::string& path, const StatisticsKey& key) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  Statistics statistics;
  try {
    if (json.at("parameters") != key.parameters || json.at("computing_bytes").size() != key.operations)
      throw Error(
          WEFT_FAILED_PRECONDITION,
          "gemini: memstats \"" + path + "\" is of another model; give another file, which is then written");
    statistics.computing = json.at("computing_bytes").get<std::vector<int64_t>>();
    statistics.most_in_use = json.at("most_in_use_bytes").get<int64_t>();
  } catch (const nlohmann::json::exception& problem) {
    throw Error(WEFT_DATA_LOSS, "gemini: memstats \"" + path + "\" holds no statistics: " + problem.what());
  }
  return statistics;
}

void write_statistics(const std::string& path, const StatisticsKey& key, const Statistics& statistics) {
  const nlohmann::json json = {{"parameters", key.parameters},
                               {"computing_bytes", statistics.computing},
                               {"most_in_use_bytes", statistics.most_in_use}};
  const std::string text = json.dump() + '\n';
  // What a link leads to is made, and the link stays.
  std::filesystem::path place = path;
  std::error_code ignored;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(place, ignored); ++links)
    place = place.parent_path() / std::filesystem::read_symlink(place);
  const std::string unfinished = place.string() + ".unfinished";
  std::remove(unfinished.c_str());  // which a killed job left
  const int file = ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  errno = file < 0 ? errno : 0;
  const bool written = file >= 0 &&
                       ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(file) == 0;
  const int code = errno;
  if (file >= 0) ::close(file);
  if (written && std::rename(unfinished.c_str(), place.c_str()) == 0) return;
  const std::string problem = std::strerror(written ? errno : code != 0 ? code : ENOSPC);
  if (file >= 0) std::remove(unfinished.c_str());
  throw Error(WEFT_RESOURCE_EXHAUSTED, "gemini: memstats \"" + path + "\" cannot be written: " + problem);
}

}  // namespace weft::plugin::gemini
