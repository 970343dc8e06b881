// What a suite finds out about a plugin: one check is one rule with the first thing that breaks it.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::contract {

struct Check {
  std::string name;  // "2 ranks: published gradients are the sums over the ranks"
  bool passed = true;
  std::string text;  // what broke the rule, or why it was not looked at; may be empty
};

// Receives the checks in their order, each as soon as it is decided.
using Tell = std::function<void(const Check& check)>;

// The checks of one rank, in the order in which they were first looked at.
class Findings {
 public:
  // Looks at a rule once more. The first problem decides; an empty one is none.
  void look(const std::string& name, const std::string& problem);
  // Adds what a rank that ended before its report wrote down.
  void add(Check check);
  // Says something beside the rules, such as what was not looked at and why.
  void note(const std::string& name, const std::string& text) { add({name, true, text}); }
  bool failed() const;
  const std::vector<Check>& checks() const { return checks_; }

  nlohmann::json to_json() const;
  static Findings parse(const nlohmann::json& json);

 private:
  Check& check(const std::string& name);

  std::vector<Check> checks_;
};

}  // namespace weft::contract
