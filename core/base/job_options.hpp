// What a job can be told, declared once in sdk/options/job.json: the flags of the command and the options of
// the C API. From a declaration come the flag with its help, the check of its value, what ranks compare, what
// is refused because it would have no effect, sdk/docs/options.md and weft::BoosterOptions.
//
//   {"name": "accumulate", "type": "int", "default": 1, "min": 1, "for": ["train"], "common": true,
//    "doc": "Micro-batches per step, which pipeline stages divide further"}
//
// Each entry of "for" is a verb of the command ("train", "tokenizer encode") or a function of the C API. One
// name may be declared several times for different ones. The keys are those of option_table.hpp, and those of
// JobOption.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/option_table.hpp"
#include "base/setting_name.hpp"

namespace weft {

struct JobOption {
  // What its value is in JSON: of kPaths on, a list. kAssignments: "key=value", each one a text.
  enum class Type { kBool, kInt, kFloat, kText, kPath, kWords, kAssignments, kInts, kFloats };
  // What becomes of the file at the path.
  enum class File { kNone, kReads, kModel, kData, kWrites, kSaves, kResumes };

  OptionSpec spec;  // without a default: null
  Type type = Type::kText;
  File file = File::kNone;
  std::string group, title;           // of options that belong together, and the title of that group
  std::vector<std::string> users;     // "for"
  std::string flag;                   // "--lr", or as declared: "-o,--option", "INPUT"
  std::string flag_default;           // what the flag is by default, where that is not `default`
  std::vector<std::string> synonyms;  // older flags
  std::vector<std::string> data;      // the kinds of data on which it has an effect; empty: all
  std::vector<std::string> excludes;  // options that must not be given with it
  bool required = false;
  bool may_be_empty = false;  // a list
  bool common = false;        // --help shows it
  bool by_command = false;    // the command acts on it, and the engine does not get it
  bool each_rank = false;     // ranks may have different values, and boost() compares the contents
  bool kept = true;           // a saved job keeps it, so that it can be repeated

  bool is_list() const { return type >= Type::kWords; }
  bool is_for(std::string_view user) const;
  // Returns its flag for messages: "--lr", "-o", "INPUT".
  std::string name_of_flag() const;
  // Returns the sentence of its help, with its default.
  std::string help() const;
};

// All of them, in the order of the declaration.
const std::vector<JobOption>& job_options();
// Returns those of a verb or function.
std::vector<const JobOption*> job_options_of(std::string_view user);
// Returns that of a verb or function, or null.
const JobOption* find_job_option(std::string_view user, std::string_view name);

// Returns the options of a function of the C API as a table.
OptionTable option_table_of(std::string_view user);

// Throws INVALID_ARGUMENT for a value that an option of `user` does not allow, for a path that is empty, and
// for an option that has no effect without others, or must not be given with another one. `called` returns
// what messages call an option.
void check_settings(std::string_view user, const nlohmann::json& given, const SettingName& called);

}  // namespace weft
