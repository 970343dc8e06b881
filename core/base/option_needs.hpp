// The key "needs" of an option's declaration, which says when the option has an effect.
//
//   "needs": {"precision": ["fp16"]}                     the option precision is fp16
//   "needs": {"max_norm": {"above": 0}}                  max_norm is a number above 0
//   "needs": {"output": "given"}                         output is given
//   "needs": {"zero_stage": [0], "static_graph": [false]}    both
//   "needs": [{"tp_size": {"above": 1}}, {"sp_size": {"above": 1}}]    one of them
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/setting_name.hpp"

namespace weft {

class OptionNeeds {
 public:
  OptionNeeds() = default;  // the option always has an effect
  // Throws INVALID_ARGUMENT; `who` names the option in the text.
  OptionNeeds(const nlohmann::json& value, std::string_view who);

  bool always() const { return cases_.empty(); }
  // Returns true if one of the cases holds; `value_of` returns the value of an option, `is_given` whether it
  // was given.
  bool hold(const std::function<nlohmann::json(const std::string&)>& value_of,
            const std::function<bool(const std::string&)>& is_given = {}) const;
  // Returns "precision fp16", "zero_stage 0 and static_graph false", ...
  std::string text(const SettingName& called = own_name) const;
  // Returns the values of the options that the cases name: "precision is fp32".
  std::string found(const std::function<nlohmann::json(const std::string&)>& value_of) const;

  // Removes the cases that name an option for which `is_known` returns false. Returns the first such option,
  // or an empty string.
  std::string keep_known(const std::function<bool(const std::string&)>& is_known);

 private:
  struct Condition {
    std::string option;
    std::vector<nlohmann::json> values;  // the option must have one of these
    std::optional<double> above;         // or be above this; without both it must be given

    bool must_be_given() const { return values.empty() && !above; }
    bool holds(const nlohmann::json& value) const;
    std::string text(const SettingName& called) const;
  };
  using Case = std::vector<Condition>;  // all conditions must hold

  static Case parse_case(const nlohmann::json& value, std::string_view who);

  std::vector<Case> cases_;  // one case must hold
};

// Returns a value as users write it: fp16, true, 25, not set.
std::string written(const nlohmann::json& value);

}  // namespace weft
