// The values of all options of a table, checked, with defaults filled in. Plugins see them as an array of
// weft_kv.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <weft/types.h>

#include "base/option_table.hpp"

namespace weft {

struct OptionValue {
  std::string name;
  uint32_t kind = WEFT_KIND_NONE;  // NONE: not set (its default is null)
  int64_t integer = 0;             // BOOL and INT
  double real = 0;                 // FLOAT
  std::string text;                // TEXT, and JSON as text
};

// All options of a table, in its order. Moving keeps data() valid.
class Options {
 public:
  Options() = default;
  // Checks `given`, an object or null, and fills in defaults. Errors begin with `who` ("strategy NAME").
  // Where an option needs others, values in `elsewhere` count instead of their defaults. Throws
  // INVALID_ARGUMENT for an unknown option, with the nearest name; for a wrong type or value, with what is
  // allowed; for a missing option, with its doc; and for an option that is given, even at its default, where
  // it has no effect.
  Options(const OptionTable& table, const nlohmann::json& given, std::string_view who,
          const nlohmann::json& elsewhere = nullptr);
  Options(Options&&) = default;
  Options& operator=(Options&&) = default;

  const weft_kv* data() const { return view_.data(); }
  uint64_t size() const { return view_.size(); }
  // Returns the value of an option of the table. Throws INTERNAL if there is none of this name.
  const OptionValue& at(std::string_view name) const;
  // Returns all options as one object, for the training state and for messages.
  nlohmann::json to_json() const;

 private:
  std::deque<OptionValue> values_;  // never moves its elements, so the views of short texts stay valid
  std::vector<weft_kv> view_;
};

// Parses `key=value` words of a command line into an object, by the types of the table. Text needs no quotes,
// and `none` means "not set" where that is the default. Throws INVALID_ARGUMENT as above, and for a word
// without `=` or a repeated key.
nlohmann::json parse_assignments(const OptionTable& table, const std::vector<std::string>& words,
                                 std::string_view who);

}  // namespace weft
