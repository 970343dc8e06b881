// The table of functions that every plugin gets.
#pragma once

#include <weft/host.h>

namespace weft::host {

const weft_host& host_table();

}  // namespace weft::host
