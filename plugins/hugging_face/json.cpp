#include "json.hpp"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "file.hpp"
#include "text.hpp"

namespace weft::hugging_face {
namespace {

constexpr std::size_t kDeepest = 16;
constexpr std::size_t kMostValues = 4'000'000;  // a header of 200 000 tensors has 1.6 million

// Without the name of the exception's class in front: "[json.exception.type_error.302] type must be ..."
std::string text_of(const nlohmann::detail::exception& exception) {
  const std::string what = exception.what();
  const std::size_t end = what.rfind("[json.exception.", 0) == 0 ? what.find("] ") : what.npos;
  return end == what.npos ? what : what.substr(end + 2);
}

// Appends each value where it belongs. nlohmann's own parser looks through all members of an object before it
// adds one.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view what, std::size_t text_size) : what_(what), text_size_(text_size) {}
  Json result() { return std::move(root_); }

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(int64_t value) override { return scalar(value); }
  bool number_unsigned(uint64_t value) override { return scalar(value); }
  bool number_float(double value, const std::string& /*text*/) override { return scalar(value); }
  bool string(std::string& value) override { return scalar(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override {
    names_.emplace_back();
    return open(Json::object());
  }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override {
    names_.pop_back();
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    if (!names_.back().insert(name).second)
      fail(WEFT_DATA_LOSS, what_, " has the name ", in_quotes(name), " twice");
    auto& members = open_.back()->get_ref<Json::object_t&>();
    // One that grows copies its members, deep. A tensor of a header takes about 128 bytes.
    if (open_.size() == 1 && members.empty()) members.reserve(text_size_ / 128);
    members.emplace_back(std::move(name), nullptr);
    slot_ = &members.back().second;
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    fail(WEFT_DATA_LOSS, what_, " is not valid JSON: ", text_of(error));
  }

 private:
  Json* place(Json value) {
    if (++values_ > kMostValues)
      fail(WEFT_DATA_LOSS, what_, " has more than ", kMostValues, " values, which is more than Weft reads");
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (!open_.back()->is_array()) {
      *slot_ = std::move(value);
      return slot_;
    }
    auto& elements = open_.back()->get_ref<Json::array_t&>();
    elements.push_back(std::move(value));
    return &elements.back();
  }
  bool scalar(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json container) {
    if (open_.size() >= kDeepest)
      fail(WEFT_DATA_LOSS, what_, " is nested more than ", kDeepest, " levels deep");
    open_.push_back(place(std::move(container)));
    return true;
  }

  std::string_view what_;
  std::size_t text_size_;
  Json root_;
  std::vector<Json*> open_;  // containers, outermost first; none of them moves while it is open
  std::vector<std::unordered_set<std::string>> names_;  // of the open objects
  Json* slot_ = nullptr;                                // where the value of the last key goes
  std::size_t values_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  if (text.size() > kLargestHeader) {
    fail(WEFT_DATA_LOSS, what, " has ", text.size(), " bytes, more than the ", kLargestHeader,
         " that are read");
  }
  Builder builder(what, text.size());
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.result();
}

std::string json_text(const Json& json, int indent) {
  try {
    return json.dump(indent);
  } catch (const Json::exception& error) {
    fail(WEFT_INVALID_ARGUMENT, "a name or a text of the checkpoint is not UTF-8: ", text_of(error));
  }
}

}  // namespace weft::hugging_face
