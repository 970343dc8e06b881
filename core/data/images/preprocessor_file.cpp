#include "images/preprocessor_file.hpp"

#include <algorithm>

#include "base/files.hpp"
#include "base/text.hpp"

namespace weft::data {

using nlohmann::json;

namespace {

std::string shown(const json& value) {
  return printable(value.dump(), 60);
}

}  // namespace

PreprocessorFile::PreprocessorFile(const std::string& path) : path_(path) {
  constexpr size_t kLargest = size_t{1} << 24;  // files can have the mel filters
  values_ = parse_json(read_file(path, kLargest), path);
  if (!values_.is_object())
    fail(WEFT_INVALID_ARGUMENT, "{}: this is {}, must be an object", path_, json_kind(values_));
}

const json* PreprocessorFile::find(const char* key) {
  read_.emplace_back(key);
  const auto found = values_.find(key);
  return found == values_.end() || found->is_null() ? nullptr : &*found;
}

void PreprocessorFile::read(const char* key, bool& value) {
  if (const json* given = find(key)) {
    if (!given->is_boolean()) refuse(key, "must be true or false");
    value = given->get<bool>();
  }
}

void PreprocessorFile::read(const char* key, double& value) {
  if (const json* given = find(key)) {
    if (!given->is_number()) refuse(key, "must be a number");
    value = given->get<double>();
  }
}

void PreprocessorFile::read(const char* key, int64_t& value, int64_t least, int64_t most) {
  if (const json* given = find(key)) {
    if (!given->is_number_integer() || *given < least || *given > most)
      refuse(key, fmt::format("must be an integer from {} to {}", least, most));
    value = given->get<int64_t>();
  }
}

void PreprocessorFile::check_type(const std::vector<const char*>& keys, const std::vector<std::string>& known,
                                  const std::vector<std::string_view>& backends, std::string_view advice) {
  for (const char* key : keys) {
    const json* type = find(key);
    if (type == nullptr || known.empty()) continue;
    std::string name = type->is_string() ? type->get<std::string>() : "";
    for (const std::string_view backend : backends)
      if (name.ends_with(backend)) name.resize(name.size() - backend.size());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fail(WEFT_UNIMPLEMENTED, "{}: \"{}\" is {}, but for this model Weft does what {} does; {}", path_, key,
         shown(*type), known.front(), advice);
  }
}

void PreprocessorFile::check_rest(const std::vector<std::string_view>& without_effect, std::string_view what,
                                  std::string_view advice) const {
  for (const auto& [key, value] : values_.items()) {
    const bool is_off = value.is_null() || value == false;
    const bool is_known =
        std::find(read_.begin(), read_.end(), key) != read_.end() ||
        std::find(without_effect.begin(), without_effect.end(), key) != without_effect.end();
    if (!is_known && !is_off)
      fail(WEFT_UNIMPLEMENTED, "{}: \"{}\" is {}, which Weft does not do to {}; {}", path_,
           printable(key, 60), shown(value), what, advice);
  }
}

void PreprocessorFile::refuse(const char* key, const std::string& wanted) const {
  fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, {}", path_, key, shown(values_.at(key)), wanted);
}

}  // namespace weft::data
