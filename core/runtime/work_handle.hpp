// What the C interface calls a work: a collective or a transfer in progress.
#pragma once

#include "memory/transfers.hpp"
#include "weft/world.hpp"

struct weft_work {
  weft::Work collective;               // null: there is none
  weft::memory::TransferEnd transfer;  // likewise

  void wait() {
    collective.wait();
    if (transfer) transfer->wait();
  }
};
