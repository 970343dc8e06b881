// Writes tar archives, also such as no program writes.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

namespace weft::testing {

struct TarEntry {
  std::string name, content;
  char type = '0';
  std::string link = {};
};

inline std::string tar_entry(const TarEntry& entry) {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, entry.name.substr(0, 100));
  put(100, "0000777");
  put(124, fmt::format("{:011o}", entry.content.size()));
  put(148, "        ");
  header[156] = entry.type;
  put(157, entry.link);
  put(257, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  std::string content = entry.content;
  content.resize((content.size() + 511) / 512 * 512);
  return header + content;
}

inline std::string tar(const std::vector<TarEntry>& entries) {
  std::string bytes;
  for (const TarEntry& entry : entries) bytes += tar_entry(entry);
  return bytes + std::string(1024, '\0');
}

}  // namespace weft::testing
