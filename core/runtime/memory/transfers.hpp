// Transfers: asynchronous copies between pinned host memory and the device, which overlap with computation.
// Each direction has a side stream. Between begin_transfer() and end_transfer() that is the current stream of
// the thread: copies go there, and collectives that send what was copied. It first waits for what the compute
// stream was given before. The compute stream waits for the transfer when somebody waits for its end.
// On the CPU every copy is synchronous, and all of this does nothing.
//
// Before finish_transfers() the host must neither read pinned memory that a transfer fills, nor write what
// one reads. The engine calls it after a strategy has published.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "device/stream.hpp"
#include "weft/pools.h"

namespace weft::memory {

enum class Direction : uint32_t {
  kToAccelerator = WEFT_TRANSFER_TO_ACCELERATOR,
  kToHost = WEFT_TRANSFER_TO_HOST
};

// The end of a transfer; null on the CPU, where it is over at once.
using TransferEnd = std::shared_ptr<const device::Event>;

// Begin and end a transfer of this thread, one at a time. To the host, the transfer before the last one is
// over before later work of this thread's stream, so that at most two keep tensors on the device. Throw
// FAILED_PRECONDITION if the thread is in a transfer, or in none.
void begin_transfer(Direction direction);
TransferEnd end_transfer();
bool in_transfer();

// Starts to copy between the device and page-locked memory in the transfer of this thread. Keeps `from` until
// the copy is done if it is on the device.
void copy_beside(const at::Tensor& to, const at::Tensor& from);

// Blocks until the transfers of this process are done.
void finish_transfers();

}  // namespace weft::memory
