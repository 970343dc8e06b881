#include "base/json.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace weft {

using nlohmann::json;

namespace {

constexpr size_t kDeepest = 64;  // dump() recurses
constexpr size_t kMostValues = 4'000'000;

using Take = std::function<void(const std::string& name, const json& value)>;

// Builds the values as they are read. nlohmann's parser with a callback would search every object and array
// again at the end of each of its members.
class Builder final : public nlohmann::json_sax<json> {
 public:
  // Hands the members of the root's member `taken` to `take`, if there is one.
  explicit Builder(std::string_view source, std::string_view taken = {}, const Take* take = nullptr)
      : source_(source), taken_(taken), take_(take) {}

  json result() { return std::move(root_); }

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(int64_t value) override { return scalar(value); }
  bool number_unsigned(uint64_t value) override { return scalar(value); }
  bool number_float(double value, const std::string& /*text*/) override { return scalar(value); }
  bool string(std::string& value) override { return scalar(std::move(value)); }
  bool binary(json::binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return open(json::object()); }
  bool start_array(size_t /*size*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    if (open_.size() == 1) is_taken_ = take_ != nullptr && name == taken_;
    const auto [place, is_new] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!is_new)
      fail(WEFT_INVALID_ARGUMENT, "{}: the key {} appears twice in one object", source_,
           printable(json(name).dump()));
    slot_ = &place->second;
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    fail(WEFT_INVALID_ARGUMENT, "{}: not valid JSON: {}", source_, printable(text_of(error), 300));
  }

 private:
  json* place(json value) {
    if (++values_ > kMostValues)
      fail(WEFT_INVALID_ARGUMENT, "{}: more than {} values, which is more than Weft reads", source_,
           kMostValues);
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (!open_.back()->is_array()) {
      *slot_ = std::move(value);
      return slot_;
    }
    auto& elements = open_.back()->get_ref<json::array_t&>();
    elements.push_back(std::move(value));
    return &elements.back();
  }
  bool scalar(json value) {
    place(std::move(value));
    return hand_over();
  }
  bool open(json container) {
    if (open_.size() >= kDeepest)
      fail(WEFT_INVALID_ARGUMENT, "{}: nested deeper than {} levels", source_, kDeepest);
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return hand_over();
  }
  bool hand_over() {
    if (!is_taken_ || open_.size() != 2 || !open_.back()->is_object()) return true;
    auto& members = open_.back()->get_ref<json::object_t&>();
    for (const auto& [name, value] : members) (*take_)(name, value);
    members.clear();
    values_ = 0;
    return true;
  }

  std::string_view source_, taken_;
  const Take* take_;
  json root_;
  std::vector<json*> open_;  // containers, outermost first; none of them moves while it is open
  json* slot_ = nullptr;     // where the value of the last key goes
  bool is_taken_ = false;    // the root's member that is open now
  size_t values_ = 0;
};

json build(std::string_view text, Builder builder) {
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.result();
}

}  // namespace

json parse_json(std::string_view text, std::string_view source) {
  return build(text, Builder(source));
}

json parse_json_members(std::string_view text, std::string_view source, std::string_view key,
                        const Take& take) {
  return build(text, Builder(source, key, &take));
}

int64_t integer_of(const json& value, std::string_view key, std::string_view source, int64_t least) {
  const bool is_integer = value.is_number_integer() &&
                          (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX}) &&
                          value.get<int64_t>() >= least;
  if (!is_integer)
    fail(WEFT_DATA_LOSS, "{}: \"{}\" is {}, must be an integer of at least {}", source, key,
         printable(value.is_structured() ? json_kind(value) : value.dump(), 40), least);
  return value.get<int64_t>();
}

int64_t integer_at(const json& object, const char* key, std::string_view source, int64_t least) {
  return integer_of(object.at(key), key, source, least);
}

std::vector<int64_t> integers_at(const json& object, const char* key, std::string_view source) {
  std::vector<int64_t> values;
  for (const json& value : object.at(key).get_ref<const json::array_t&>())
    values.push_back(integer_of(value, key, source));
  return values;
}

std::string_view text_of(const nlohmann::detail::exception& exception) {
  const std::string_view what =
      exception.what();  // "[json.exception.type_error.302] type must be string, ..."
  const size_t end = what.starts_with("[json.exception.") ? what.find("] ") : what.npos;
  return end == what.npos ? what : what.substr(end + 2);
}

const char* json_kind(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "an array";
    case json::value_t::string:
      return "a text";
    case json::value_t::boolean:
      return "true or false";
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return "an integer";
    case json::value_t::number_float:
      return "a number";
    default:
      return "no JSON value";
  }
}

}  // namespace weft
