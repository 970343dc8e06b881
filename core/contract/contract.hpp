// Proves in numbers that a plugin keeps the contract of its kind. The host checks how a library is built and
// how its tables behave (core/host/validate.hpp); a suite here runs what the plugin is for, on tiny models.
#pragma once

#include <string>

#include "contract/checks.hpp"

namespace weft::contract {

struct Subject {
  std::string kind;            // "strategy", ... as in plugin.json
  std::string name;            // one that the library provides
  std::string options = "{}";  // of the plugin, a JSON object
  std::string model;           // a config.json or folder for the suites that need one; empty: none
  std::string data;            // a path for the suite of data sets; empty: none
};

// Whether there is a suite for plugins of this kind.
bool has_suite(const std::string& kind);

// Runs the suite of the subject's kind. The plugin is found by its name. Throws INVALID_ARGUMENT for options
// that the plugin does not have, and for a model or options that the suite has no use for. Call it in a
// process of one thread.
void check(const Subject& subject, const Tell& tell);

}  // namespace weft::contract
