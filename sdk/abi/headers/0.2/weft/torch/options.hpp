// The options of a strategy as its plugin.json lists them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "host_tables.hpp"

namespace weft::plugin {
inline namespace v0 {

// The options of plugin.json. They are complete: the host has filled in defaults and refused unknown names
// and wrong types.
class Options {
 public:
  Options() = default;
  Options(const weft_kv* options, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const weft_kv& o = options[i];
      Value& value = values_[text(o.key)];
      if ((o.flags & WEFT_KV_GIVEN) != 0) given_.insert(text(o.key));
      if (o.kind == WEFT_KIND_BOOL) value = o.integer != 0;
      if (o.kind == WEFT_KIND_INT) value = o.integer;
      if (o.kind == WEFT_KIND_FLOAT) value = o.real;
      if (o.kind == WEFT_KIND_TEXT || o.kind == WEFT_KIND_JSON) value = text(o.text);
    }
  }
  // Returns true if the user gave the option, even at its default value.
  bool given(const std::string& name) const { return given_.contains(name); }
  // Returns the value of an option that is not null. T is bool, int64_t, double or std::string.
  template <class T>
  T get(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end() || !std::holds_alternative<T>(found->second))
      throw Error(WEFT_INTERNAL,
                  "option \"" + name + "\" is not in the strategy's plugin.json with this type");
    return std::get<T>(found->second);
  }
  // Returns true if plugin.json lists the option and its value is not null.
  bool has(const std::string& name) const {
    const auto found = values_.find(name);
    return found != values_.end() && !std::holds_alternative<std::monostate>(found->second);
  }
  // Returns the value of an option, or nothing if it is null.
  template <class T>
  std::optional<T> find(const std::string& name) const {
    const auto found = values_.find(name);
    if (found != values_.end() && std::holds_alternative<std::monostate>(found->second)) return std::nullopt;
    return get<T>(name);
  }
  // Returns the value of an option, or `otherwise` if it is null or plugin.json does not list it.
  template <class T>
  T get_or(const std::string& name, T otherwise) const {
    return has(name) ? get<T>(name) : otherwise;
  }

 private:
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;
  std::map<std::string, Value> values_;
  std::set<std::string> given_;
};

}  // namespace v0
}  // namespace weft::plugin
