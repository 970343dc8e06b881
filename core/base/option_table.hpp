// The options that a plugin takes, as its plugin.json lists them:
//
//   "options": [{"name": "bucket_cap_mb", "type": "int", "default": 25, "min": 1, "doc": "size of a bucket in
//   MiB"}]
//
// `type` is bool, int, float, text or json. Without `default` the option must be given; the default `null`
// means "not set". `choices`, `min` and `max` limit the values; `"infinity": true` allows "inf" for a float.
// `since` is the version that added the option, `needs` says when it has an effect (option_needs.hpp), and
// `by` who implements it, host or strategy.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/option_needs.hpp"

namespace weft {

struct OptionSpec {
  std::string name;
  uint32_t kind = 0;                            // WEFT_KIND_BOOL, INT, FLOAT, TEXT or JSON
  std::optional<nlohmann::json> default_value;  // null: not set; nothing: the option must be given
  std::vector<nlohmann::json> choices;          // empty: any value
  std::optional<double> min, max;
  bool infinity = false;  // a float may be "inf"
  std::string doc;
  std::string since;            // the version that added it; empty: the first version of the plugin
  std::string by = "strategy";  // who implements it; or "host"
  OptionNeeds needs;            // giving the option is an error if they do not hold
};

class OptionTable {
 public:
  OptionTable() = default;
  // Reads the array of a manifest; errors name `source`. Throws INVALID_ARGUMENT, also for wrong defaults.
  OptionTable(const nlohmann::json& array, std::string_view source);

  const std::vector<OptionSpec>& specs() const { return specs_; }
  const OptionSpec* find(std::string_view name) const;
  // Returns the option of this name. Throws INVALID_ARGUMENT with `who`, the name, and what there is instead
  // of it or the nearest name.
  const OptionSpec& at(std::string_view name, std::string_view who) const;
  std::vector<std::string> names() const;
  void add(OptionSpec spec) { specs_.push_back(std::move(spec)); }
  // Says what there is instead of an option that users of other systems look for.
  void add_instead(std::string name, std::string text) {
    instead_.emplace_back(std::move(name), std::move(text));
  }

 private:
  std::vector<OptionSpec> specs_;
  std::vector<std::pair<std::string, std::string>> instead_;
};

// Return "int", and "one of ..., at least ...", for messages and help.
std::string type_name(uint32_t kind);
std::string wanted(const OptionSpec& spec);

// Returns "is 3, must be an integer, at least 4" if `spec` does not allow `value`, and otherwise nothing.
std::string refusal(const OptionSpec& spec, const nlohmann::json& value);

// Throws INVALID_ARGUMENT, with the option, the value and what is allowed, if `spec` does not allow `value`.
void check_value(const OptionSpec& spec, const nlohmann::json& value, std::string_view who);

}  // namespace weft
