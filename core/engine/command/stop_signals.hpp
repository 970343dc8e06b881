// Ctrl-C, SIGTERM and SIGHUP ask a training to finish its step and save. A second Ctrl-C or SIGTERM kills.
#pragma once

#include <string>

#include "weft/booster.hpp"

namespace weft::command {

// From its construction to its end. A signal that was ignored before (nohup) stays ignored.
class StopSignals {
 public:
  explicit StopSignals(Job& job);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;

  // What stopped the job, the same on every rank: all ranks leave with one exit code, whichever got the
  // signal. Collective.
  struct Stop {
    int signal = 0;
    std::string text;  // "SIGTERM", or "SIGTERM to rank 1" if other ranks got none, or another one, first
  };
  static Stop agree(const World& world);
};

}  // namespace weft::command
