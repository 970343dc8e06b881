// Options checked against a table: complete, typed, owned, and visible to a plugin as weft_kv.
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

// Every option of the table, in its order. Moving keeps the view valid; there is no copy.
class Options {
 public:
  Options() = default;
  // `given` is an object or null; `who` is named in errors ("strategy NAME"). Throws INVALID_ARGUMENT:
  // an unknown option with the nearest name, a wrong type or value with option, got and wanted, a missing one
  // with its doc, and one that is given, its default too, where it has no effect.
  // Values in `elsewhere` count in place of defaults where an option needs others.
  Options(const OptionTable& table, const nlohmann::json& given, std::string_view who,
          const nlohmann::json& elsewhere = nullptr);
  Options(Options&&) = default;
  Options& operator=(Options&&) = default;

  const weft_kv* data() const { return view_.data(); }
  uint64_t size() const { return view_.size(); }
  // A program's own mistake throws INTERNAL.
  const OptionValue& at(std::string_view name) const;
  // The complete options as one object, for the training state and for messages.
  nlohmann::json to_json() const;

 private:
  std::deque<OptionValue> values_;  // never moves its elements, so the views of short texts stay valid
  std::vector<weft_kv> view_;
};

// `key=value` words of a command line as an object, by the types of the table; text is taken as it stands,
// `none` sets back what has no default. Throws INVALID_ARGUMENT as above, and for a word without `=` or a key
// given twice.
nlohmann::json parse_assignments(const OptionTable& table, const std::vector<std::string>& words,
                                 std::string_view who);

}  // namespace weft
