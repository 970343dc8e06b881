// Runs a shard policy: gives it the model through the C table and records its calls.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

// The calls of a policy. `place` is the entry of a JSON policy that made the call, for messages; empty for a
// policy in C.
struct Recording {
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
  std::string refusal;                // the error that the policy returned; empty if it returned WEFT_OK

  // Returns one line per call, sorted.
  std::vector<std::string> lines() const;
};

// Runs `policy` and returns its calls. `order` holds the indices of the model's nodes in the order in which
// the policy sees them.
Recording record(const ModelDescription& model, const std::vector<size_t>& order, const Policy& policy,
                 const ParallelSizes& sizes);

// Sets the place of the calls that follow: "policy.json, entry 3".
void set_place(weft_plan* plan, std::string place);
// Returns "policy.json, entry 3: problem", or the problem alone if `place` is empty.
std::string placed(const std::string& place, const std::string& problem);

// Converts a JSON value to an attribute. A value that is no number, flag or text gets the kind JSON.
Attribute to_attribute(const std::string& key, const nlohmann::json& value);
// Returns a view of `attribute`, which must outlive it.
weft_kv borrow(const Attribute& attribute);

// The configuration of a model as a policy sees it: one typed value per key. Keys whose value is null are
// absent.
class ConfigView {
 public:
  // Throws INVALID_ARGUMENT unless the text is a JSON object.
  explicit ConfigView(const std::string& config_json);
  // Returns the value of `key`, null if it is absent.
  const weft_kv* find(std::string_view key) const;
  std::vector<std::string> keys() const;

 private:
  std::vector<Attribute> values_;  // sorted by key; `views_` points into it
  std::vector<weft_kv> views_;
};

}  // namespace weft::plan
