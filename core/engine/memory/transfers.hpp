// Transfers: copies between host memory and the device beside computation. Each direction has a device stream
// of its own. What a thread gives the device in a transfer, copies and the collectives that send what they
// bring, follows what the device was given before; later work follows it when somebody waits for its end.
// On the CPU a copy is done when it returns, and all of this does nothing.
//
// The host must not read page-locked memory that a transfer fills, nor write what one reads, before
// finish_transfers(). The engine calls it before it looks at what a strategy publishes.
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
