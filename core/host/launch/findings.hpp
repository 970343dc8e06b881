// What went wrong with which rank, as far as the launcher can see it, and which of it explains the rest.
#pragma once

#include <optional>
#include <vector>

namespace weft::launch {

// From what follows from another rank's end to what nothing else explains.
enum class Evidence {
  kLostPeer,    // it reported that a peer was lost
  kExit,        // it exited with a code other than 0, or aborted, and reported nothing
  kOwnFailure,  // it reported what failed
  kSignal,      // a signal killed it that we did not send
};

struct Finding {
  int rank = -1;
  Evidence evidence = Evidence::kLostPeer;
};

class Findings {
 public:
  // The first one of a rank counts.
  void add(Finding finding) {
    for (const Finding& known : all_)
      if (known.rank == finding.rank) return;
    all_.push_back(finding);
  }
  // The strongest evidence, the first where there is more.
  std::optional<Finding> best() const {
    std::optional<Finding> best;
    for (const Finding& finding : all_)
      if (!best || finding.evidence > best->evidence) best = finding;
    return best;
  }
  // Whether nothing that comes later can explain it better.
  bool decisive() const { return best() && best()->evidence >= Evidence::kOwnFailure; }
  // The weakest if there is none of this rank.
  Evidence of(int rank) const {
    for (const Finding& finding : all_)
      if (finding.rank == rank) return finding.evidence;
    return Evidence::kLostPeer;
  }

 private:
  std::vector<Finding> all_;  // in the order in which they were made
};

}  // namespace weft::launch
