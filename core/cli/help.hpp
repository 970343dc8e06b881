// How help looks: lines that fit a terminal, and a group of options that is not shown.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace weft::cli {

// The group of options that help leaves out. CLI11 itself hides a group without a name, but then also leaves
// the name of the option out of its errors.
inline constexpr const char* kNotShown = "not shown";

class Help : public CLI::Formatter {
 public:
  Help() { column_width(30); }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace weft::cli
