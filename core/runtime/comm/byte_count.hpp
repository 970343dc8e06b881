// Counts the bytes that this process sends, by collective.
#pragma once

#include <cstdint>

namespace weft::comm {

enum class Traffic { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kAllToAll, kSend, kControl };

// Returns the name of a collective, as error messages and communicated_bytes() have it.
const char* name(Traffic traffic);

void count_bytes(Traffic traffic, int64_t bytes);  // may be called from any thread

}  // namespace weft::comm
