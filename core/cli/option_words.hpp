// Reads the values of options from words of the command line or of a configuration file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/job_options.hpp"

namespace weft::cli {

// Returns the value of an option that is not a list of words. Throws UsageError for a text of another type;
// `who` names the option there.
nlohmann::json read_option(const JobOption& option, const std::string& text, const std::string& who,
                           bool may_be_empty = false);
// Throws UsageError if `text` is not UTF-8, which JSON cannot pass to the engine.
void require_utf8(const std::string& who, const std::string& text);

}  // namespace weft::cli
