// `weft plugins new`: begins a plugin from a template.
#pragma once

#include <CLI/CLI.hpp>

namespace weft::cli {

// Adds the verb to `plugins`.
void add_new_plugin(CLI::App& plugins);

}  // namespace weft::cli
