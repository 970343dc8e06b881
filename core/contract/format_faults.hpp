// What a checkpoint format must do when saves fail, are killed or disturb each other, and with damaged files.
#pragma once

#include <string>

#include "contract/format_trial.hpp"

namespace weft::contract {

// How a rule that was not looked at says so.
inline constexpr const char* kNotLooked = "not checked: ";

// Each tries one rule and returns what breaks it, or "".
std::string replaces(const FormatTrial& trial);
std::string misses_nothing(const FormatTrial& trial);
std::string abandons(const FormatTrial& trial);
std::string excludes(const FormatTrial& trial);
std::string knows_a_full_disk(const FormatTrial& trial);
std::string refuses_truncated_files(const FormatTrial& trial);
std::string survives_damage(const FormatTrial& trial);
std::string survives_kills(const FormatTrial& trial);

}  // namespace weft::contract
