// Bytes handed to collectives, by collective, for the whole process.
#pragma once

#include <cstdint>

namespace weft::comm {

enum class Traffic { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kAllToAll, kSend, kControl };

// As in messages and in communicated_bytes().
const char* name(Traffic traffic);

void count_bytes(Traffic traffic, int64_t bytes);  // any thread

}  // namespace weft::comm
