#include "statistics.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "weft/error.hpp"

namespace weft::gemini {

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
  const std::string unfinished = path + ".unfinished", text = json.dump() + "\n";
  // A new file: in a folder that others can write to, a link may have its name.
  std::remove(unfinished.c_str());
  std::FILE* const file = std::fopen(unfinished.c_str(), "wxe");
  bool is_written = file != nullptr && std::fwrite(text.data(), text.size(), 1, file) == 1;
  if (file != nullptr && std::fclose(file) != 0) is_written = false;
  if (!is_written || std::rename(unfinished.c_str(), path.c_str()) != 0) {
    const std::string problem = std::strerror(errno);
    std::remove(unfinished.c_str());
    throw Error(WEFT_RESOURCE_EXHAUSTED, "gemini: memstats \"" + path + "\" cannot be written: " + problem);
  }
}

}  // namespace weft::gemini
