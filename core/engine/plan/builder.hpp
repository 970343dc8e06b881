// Runs a shard policy: shows it the model through the C table and records what it asks for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

struct Recording {
  // `place`: of the entry in a policy that is a file, for messages; empty otherwise.
  struct Replace {
    std::string pattern;
    std::string operation;
    std::vector<Attribute> attributes;
    std::string place;
  };
  struct Divide {
    std::string pattern;
    std::string attribute;
    int64_t by;
    std::string place;
  };
  struct Require {
    std::string key;
    int64_t divisor;
    std::string place;
  };
  struct Tied {
    Tie names;
    std::string place;
  };

  std::vector<Replace> replaces;
  std::vector<Divide> divides;
  std::vector<Tied> ties;
  std::vector<Require> requires_divides;
  std::vector<std::string> rejections;
  std::vector<std::string> problems;  // calls that break the contract of the table
  std::string refusal;                // what the policy said when it returned an error; empty if it agreed

  // One line a call, sorted.
  std::vector<std::string> lines() const;
};

// `order` holds the indices of the model's nodes in the order in which the policy sees them.
Recording record(const ModelDescription& model, const std::vector<size_t>& order, const Policy& policy,
                 const ParallelSizes& sizes);

// Where the entry is that makes the calls from now on: "policy.json, entry 3".
void set_place(weft_plan* plan, std::string place);
// "policy.json, entry 3: problem", or the problem where there is no place.
std::string placed(const std::string& place, const std::string& problem);

// The typed value of a JSON value; what is no number, flag or text has the kind JSON.
Attribute to_attribute(const std::string& key, const nlohmann::json& value);
weft_kv borrow(const Attribute& attribute);

// A key of the configuration as the policy sees it, with its text in `storage`; false for null and for what
// is absent.
class ConfigView {
 public:
  explicit ConfigView(const std::string& config_json);  // throws INVALID_ARGUMENT unless it is an object
  const weft_kv* find(std::string_view key) const;
  std::vector<std::string> keys() const;

 private:
  std::vector<Attribute> values_;  // sorted by key; the views point into it
  std::vector<weft_kv> views_;
};

}  // namespace weft::plan
