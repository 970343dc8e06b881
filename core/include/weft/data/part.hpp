// The parts into which held-out samples divide a data set.
#pragma once

namespace weft::data {

enum class Part { kAll, kTraining, kHeldOut };

}  // namespace weft::data
