// The values that a user gave for the options of one verb of the command, or of one function of the C API,
// with the defaults that sdk/options/job.json declares.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/setting_name.hpp"

namespace weft {

class Settings {
 public:
  // `user` is the verb or function, `called` returns what messages call an option. The values must have the
  // types of their options; check() looks at what else they need.
  Settings(std::string user, nlohmann::json given, SettingName called);

  // Throws INVALID_ARGUMENT as check_settings() does.
  void check() const;
  const std::string& user() const { return user_; }
  // The values that were given, by name.
  const nlohmann::json& all() const { return given_; }
  std::string called(const std::string& name) const { return called_(name); }
  const SettingName& name() const { return called_; }
  // Returns whether the option was given. An option that `user` does not have was not.
  bool given(const std::string& name) const { return given_.contains(name); }

  // Return the value that was given, or the declared default. Without both a text is empty, a flag false, and
  // a list empty; a number throws INTERNAL.
  std::string text(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  bool flag(const std::string& name) const;
  std::vector<std::string> words(const std::string& name) const;
  std::vector<int64_t> integers(const std::string& name) const;
  std::vector<double> reals(const std::string& name) const;
  // Return the value that was given, or `otherwise`, where no default is declared.
  std::string text(const std::string& name, const std::string& otherwise) const;
  int64_t integer(const std::string& name, int64_t otherwise) const;
  double real(const std::string& name, double otherwise) const;

 private:
  // Returns the value, or null.
  nlohmann::json value(const std::string& name) const;
  template <class Value>
  Value number(const std::string& name) const;

  std::string user_;
  nlohmann::json given_;
  SettingName called_;
};

}  // namespace weft
