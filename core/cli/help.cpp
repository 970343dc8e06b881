#include "help.hpp"

#include <regex>

namespace weft::cli {

std::string Help::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  static const std::regex empty_lines("\n{3,}");
  return std::regex_replace(CLI::Formatter::make_help(app, std::move(name), mode), empty_lines, "\n\n");
}

std::string Help::make_group(std::string group, bool is_positional,
                             std::vector<const CLI::Option*> options) const {
  if (group == kNotShown) return "";
  return CLI::Formatter::make_group(std::move(group), is_positional, std::move(options));
}

std::string Help::make_option_desc(const CLI::Option* option) const {
  constexpr size_t kColumns = 78;  // beside the flags
  const std::string text = CLI::Formatter::make_option_desc(option);
  std::string lines;
  size_t begin = 0;
  while (text.size() - begin > kColumns) {
    size_t space = text.rfind(' ', begin + kColumns);
    // A line that began with a flag would look like the next option.
    while (space != std::string::npos && space > begin && text[space + 1] == '-')
      space = text.rfind(' ', space - 1);
    if (space == std::string::npos || space <= begin) break;
    lines += text.substr(begin, space - begin) + "\n";
    begin = space + 1;
  }
  return lines + text.substr(begin);
}

}  // namespace weft::cli
