#include "base/settings.hpp"

#include <algorithm>

#include <utility>

#include "base/job_options.hpp"
#include "base/text.hpp"

namespace weft {

using nlohmann::json;

Settings::Settings(std::string user, json given, SettingName called)
    : user_(std::move(user)), given_(std::move(given)), called_(std::move(called)) {}

void Settings::check() const {
  check_settings(user_, given_, called_);
}

json Settings::value(const std::string& name) const {
  if (given(name)) return given_.at(name);
  const JobOption* const option = find_job_option(user_, name);
  return option ? option->spec.default_value.value_or(json()) : json();
}

template <class Value>
Value Settings::number(const std::string& name) const {
  const json found = value(name);
  if (found.is_null()) fail(WEFT_INTERNAL, "option {} of {} has no value and no default", name, user_);
  return found.get<Value>();
}

std::string Settings::text(const std::string& name) const {
  const json found = value(name);
  return found.is_null() ? "" : found.get<std::string>();
}

int64_t Settings::integer(const std::string& name) const {
  return number<int64_t>(name);
}

double Settings::real(const std::string& name) const {
  return number<double>(name);
}

bool Settings::flag(const std::string& name) const {
  const json found = value(name);
  return !found.is_null() && found.get<bool>();
}

std::vector<std::string> Settings::words(const std::string& name) const {
  const json found = value(name);
  if (found.is_null()) return {};
  if (found.is_string()) return {found.get<std::string>()};
  const auto is_text = [](const json& word) { return word.is_string(); };
  if (!found.is_array() || !std::all_of(found.begin(), found.end(), is_text))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be a list of texts", called_(name), found.dump());
  return found.get<std::vector<std::string>>();
}

std::vector<int64_t> Settings::integers(const std::string& name) const {
  const json found = value(name);
  return found.is_null() ? std::vector<int64_t>() : found.get<std::vector<int64_t>>();
}

std::vector<double> Settings::reals(const std::string& name) const {
  const json found = value(name);
  return found.is_null() ? std::vector<double>() : found.get<std::vector<double>>();
}

std::string Settings::text(const std::string& name, const std::string& otherwise) const {
  return given(name) ? given_.at(name).get<std::string>() : otherwise;
}

int64_t Settings::integer(const std::string& name, int64_t otherwise) const {
  return given(name) ? given_.at(name).get<int64_t>() : otherwise;
}

double Settings::real(const std::string& name, double otherwise) const {
  return given(name) ? given_.at(name).get<double>() : otherwise;
}

}  // namespace weft
