#include "verbs.hpp"

namespace weft::cli {

void add_plugins(CLI::App&) {}

}  // namespace weft::cli
