// The options that a plugin takes, as its plugin.json lists them:
//
//   "options": [{"name": "bucket_cap_mb", "type": "int", "default": 25, "min": 1, "doc": "size of a bucket in
//   MiB"}]
//
// `type` is bool, int, float, text or json. Without `default` the option must be given; `null` as default is
// "not set". `choices`, `min` and `max` limit the values; `"infinity": true` admits "inf" to a float. `since`
// is the version that brought the option, `needs` when it has an effect (option_needs.hpp), and `by` who
// performs it: host or strategy.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/option_needs.hpp"

namespace weft {

struct OptionSpec {
  std::string name;
  uint32_t kind = 0;                            // WEFT_KIND_BOOL, INT, FLOAT, TEXT or JSON
  std::optional<nlohmann::json> default_value;  // null: not set; nothing: the option must be given
  std::vector<nlohmann::json> choices;          // empty: every value
  std::optional<double> min, max;
  bool infinity = false;  // of a float: "inf" is a value too
  std::string doc;
  std::string since;            // a version; empty: that of the plugin's first
  std::string by = "strategy";  // who performs it; or "host"
  OptionNeeds needs;            // refused where they do not hold and the option is given
};

class OptionTable {
 public:
  OptionTable() = default;
  // From the array of a manifest; `source` names it in errors. Throws INVALID_ARGUMENT; the defaults are
  // checked too.
  OptionTable(const nlohmann::json& array, std::string_view source);

  const std::vector<OptionSpec>& specs() const { return specs_; }
  const OptionSpec* find(std::string_view name) const;
  // Throws INVALID_ARGUMENT naming `who`, the option and the nearest one.
  const OptionSpec& at(std::string_view name, std::string_view who) const;
  std::vector<std::string> names() const;

 private:
  std::vector<OptionSpec> specs_;
};

// "int", and "one of ..., at least ..." for messages and help.
std::string type_name(uint32_t kind);
std::string wanted(const OptionSpec& spec);

// Throws INVALID_ARGUMENT with option, got and wanted unless `value` is one that `spec` allows.
void check_value(const OptionSpec& spec, const nlohmann::json& value, std::string_view who);

}  // namespace weft
