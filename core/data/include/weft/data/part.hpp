// The parts into which held-out samples divide a data set.
#pragma once

namespace weft::data {

// Which samples are read: those to train on, those that are held out, or both.
enum class Part { kAll, kTraining, kHeldOut };

}  // namespace weft::data
