#include "opening/library_options.hpp"

#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "plugins.hpp"

namespace weft {

OptionTable options_of_library(const weft_loaded& loaded) {
  const std::string source = fmt::format("plugin.json of {}", view(loaded.id));
  return option_table_of_plugin(parse_json(view(loaded.manifest), source), source);
}

nlohmann::json library_options(const char* kind, const std::string& name, const std::string& who,
                               const std::vector<std::string>& words) {
  return parse_assignments(options_of_library(load_plugin(kind, name)), words, who);
}

}  // namespace weft
