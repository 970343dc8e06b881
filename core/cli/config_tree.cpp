#include "config_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.hpp"
#include "verbs.hpp"

namespace weft::cli {
namespace {

// Builds the tree from what a parser finds, one thing after another.
class Builder {
 public:
  explicit Builder(std::string path) : path_(std::move(path)) {}

  void scalar(int line, ConfigNode::Kind kind, const std::string& text) {
    if (wants_name() && kind == ConfigNode::Kind::kNull) refuse(line, "a name is missing");
    if (wants_name()) return take_name(line, text);
    ConfigNode node;
    node.kind = kind;
    node.text = text;
    place(line, std::move(node));
  }
  void begin(int line, ConfigNode::Kind kind) {
    constexpr size_t kDeepest = 16;
    if (wants_name()) refuse(line, "the name of an option is a list or a map, must be a word");
    if (open_.size() == kDeepest) refuse(line, fmt::format("nested deeper than {} levels", kDeepest));
    ConfigNode node;
    node.kind = kind;
    open_.push_back(&place(line, std::move(node)));
    names_.push_back(false);
  }
  void end() {
    open_.pop_back();
    names_.pop_back();
  }
  ConfigNode take() { return std::move(root_); }
  [[noreturn]] void refuse(int line, const std::string& what) const {
    throw UsageError(fmt::format("{}:{}: {}", path_, line, what));
  }

 private:
  bool in_map() const { return !open_.empty() && open_.back()->kind == ConfigNode::Kind::kMap; }
  bool wants_name() const { return in_map() && !names_.back(); }

  void take_name(int line, const std::string& name) {
    for (const ConfigNode& other : open_.back()->items)
      if (other.name == name)
        refuse(line, fmt::format("{} is given twice, first in line {}", printable(name), other.line));
    name_ = name;
    name_line_ = line;
    names_.back() = true;
  }
  ConfigNode& place(int line, ConfigNode node) {
    node.line = line;
    if (open_.empty()) return root_ = std::move(node);
    if (in_map()) {
      node.name = name_;
      node.line = name_line_;
      names_.back() = false;
    }
    open_.back()->items.push_back(std::move(node));
    return open_.back()->items.back();
  }

  std::string path_;
  ConfigNode root_;
  // The lists and maps that have begun. While one is open nothing is added to those around it, so the
  // addresses stay.
  std::vector<ConfigNode*> open_;
  std::vector<bool> names_;  // of each of them: a name is there, and waits for its value
  std::string name_;
  int name_line_ = 1;
};

class YamlEvents : public YAML::EventHandler {
 public:
  explicit YamlEvents(Builder& builder) : builder_(builder) {}
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) builder_.refuse(line(mark), "a second document begins here; give one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "", anchor);
    builder_.scalar(line(mark), ConfigNode::Kind::kNull, "");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    builder_.refuse(line(mark), "an alias (*name); write the value itself");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    const bool is_quoted = tag == "!";
    const bool is_null = !is_quoted && (value == "null" || value == "~");
    builder_.scalar(line(mark),
                    is_null     ? ConfigNode::Kind::kNull
                    : is_quoted ? ConfigNode::Kind::kQuoted
                                : ConfigNode::Kind::kPlain,
                    value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    builder_.begin(line(mark), ConfigNode::Kind::kList);
  }
  void OnSequenceEnd() override { builder_.end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    builder_.begin(line(mark), ConfigNode::Kind::kMap);
  }
  void OnMapEnd() override { builder_.end(); }

 private:
  static int line(const YAML::Mark& mark) { return mark.line + 1; }
  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor)
      builder_.refuse(line(mark), "an anchor (&name); write values where they are used");
    if (!tag.empty() && tag != "?" && tag != "!")
      builder_.refuse(line(mark), fmt::format("a tag ({}); options have types of their own", printable(tag)));
  }

  Builder& builder_;
  int documents_ = 0;
};

// Characters of a text that count its lines while they are read.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    if (*at == '\n') ++*line;
    ++at;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }

  const char* at;
  int* line;
};

class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonEvents(Builder& builder, const int& line) : builder_(builder), line_(line) {}
  bool null() override { return add(ConfigNode::Kind::kNull, ""); }
  bool boolean(bool value) override { return add(ConfigNode::Kind::kPlain, value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return add(ConfigNode::Kind::kPlain, std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return add(ConfigNode::Kind::kPlain, std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return add(ConfigNode::Kind::kPlain, text);
  }
  bool string(string_t& value) override { return add(ConfigNode::Kind::kQuoted, value); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& name) override { return add(ConfigNode::Kind::kQuoted, name); }
  bool start_object(std::size_t) override { return begin(ConfigNode::Kind::kMap); }
  bool start_array(std::size_t) override { return begin(ConfigNode::Kind::kList); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    builder_.refuse(line_, fmt::format("not JSON: {}", printable(error.what())));
  }

 private:
  bool add(ConfigNode::Kind kind, const std::string& text) {
    builder_.scalar(line_, kind, text);
    return true;
  }
  bool begin(ConfigNode::Kind kind) {
    builder_.begin(line_, kind);
    return true;
  }
  bool end() {
    builder_.end();
    return true;
  }

  Builder& builder_;
  const int& line_;
};

void parse_yaml(const std::string& text, Builder& builder) {
  YamlEvents events(builder);
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const YAML::Exception& error) {
    builder.refuse(error.mark.line + 1, fmt::format("not YAML: {}", printable(error.msg)));
  }
}

}  // namespace

ConfigNode parse_config(const std::string& text, const std::string& path) {
  Builder builder(printable(path));
  if (path.ends_with(".json")) {
    int line = 1;
    JsonEvents events(builder, line);
    const char* const begin = text.data();
    nlohmann::json::sax_parse(CountingIterator{begin, &line}, CountingIterator{begin + text.size(), &line},
                              &events);
  } else {
    parse_yaml(text, builder);
  }
  return builder.take();
}

}  // namespace weft::cli
