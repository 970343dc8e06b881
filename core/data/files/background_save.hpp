// A save that runs in a thread while training continues.
#pragma once

#include <functional>
#include <future>

#include "files/piece.hpp"

namespace weft::checkpoint {

// Replaces the values of the pieces by copies, so that training may change the originals while the copies are
// written. Removes pieces that are not counted unless `keep_all`.
void copy_pieces(Pieces& pieces, bool keep_all);

class BackgroundSave {
 public:
  BackgroundSave() = default;
  // Waits for the save. If it failed, logs the error and makes the process end with status 1.
  ~BackgroundSave();

  // Waits for the save before, and starts a thread that runs `write` with a communicator of the same ranks
  // that nothing else uses. Collective; throws on every rank if the save before failed.
  void start(const Communicator& ranks, std::function<void(const Communicator& ranks)> write);
  // Waits for the save. Throws its error if it failed, on every rank and once.
  void finish();

 private:
  Communicator ranks_;  // created by the first save
  std::future<void> saving_;
};

}  // namespace weft::checkpoint
