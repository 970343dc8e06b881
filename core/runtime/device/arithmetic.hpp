// How the device of this process computes: whether with the same bits at every run, and with which matrix
// products. Both are settings of libtorch for the whole process.
//
// Threads: call these functions between use() and the first tensor on the device, from the thread of use().
#pragma once

namespace weft::device {

// Turns on libtorch's deterministic mode and what the current device needs beside it; it stays on. Operations
// that have no deterministic implementation on the device throw c10::Error from now on. Throws
// FAILED_PRECONDITION if an environment variable is set to a value that contradicts it.
void make_deterministic();

// Chooses whether matrix products of fp32 values may round them to TF32. Without a choice, and if it is
// false, libtorch's setting remains. Throws UNIMPLEMENTED if it is true and the current device has no TF32,
// FAILED_PRECONDITION if the opposite was chosen before.
void allow_tf32(bool allowed);

}  // namespace weft::device
