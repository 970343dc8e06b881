#include "files/background_save.hpp"

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "base/signals.hpp"
#include "base/text.hpp"
#include "log.hpp"

namespace weft::checkpoint {

void copy_pieces(Pieces& pieces, bool keep_all) {
  if (!keep_all) std::erase_if(pieces, [](const Piece& piece) { return !piece.counted; });
  for (Piece& piece : pieces) piece.values = piece.values.clone();
}

void BackgroundSave::start(const Communicator& ranks, std::function<void(const Communicator&)> write) {
  finish();
  if (!ranks_) {
    std::vector<uint32_t> all(ranks.size());
    std::iota(all.begin(), all.end(), 0u);
    ranks_ = ranks.subset(all);
  }
  const BlockSignals in_new_threads;
  saving_ = std::async(std::launch::async, [write = std::move(write), ranks = ranks_] { write(ranks); });
}

void BackgroundSave::finish() {
  if (saving_.valid()) saving_.get();
}

namespace {

// Makes the process end with status 1. A destructor cannot throw, and a lost checkpoint must not look like
// success.
void fail_at_exit() {
  static const bool registered = std::atexit([] {
                                   std::fflush(nullptr);
                                   std::_Exit(1);
                                 }) == 0;
  (void)registered;
}

}  // namespace

BackgroundSave::~BackgroundSave() {
  try {
    finish();
  } catch (const std::exception& e) {
    log(WEFT_LOG_ERROR, fmt::format("the save in the background failed, so this process will end with status "
                                    "1: {}; call finish_saving() to handle this",
                                    e.what()));
    fail_at_exit();
  }
}

}  // namespace weft::checkpoint
