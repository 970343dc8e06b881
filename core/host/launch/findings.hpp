// Collects what went wrong with each rank, and finds the failure that explains the others.
#pragma once

#include <optional>
#include <vector>

namespace weft::launch {

// How a rank failed, from the weakest to the strongest evidence that it failed on its own.
enum class Evidence {
  kLostPeer,    // it reported that it lost another rank
  kExit,        // it exited with a code other than 0, or aborted, without a report
  kOwnFailure,  // it reported a failure of its own
  kSignal,      // a signal killed it that the launcher did not send
};

struct Finding {
  int rank = -1;
  Evidence evidence = Evidence::kLostPeer;
};

class Findings {
 public:
  // Adds a finding. Only the first finding of a rank counts.
  void add(Finding finding) {
    for (const Finding& known : all_)
      if (known.rank == finding.rank) return;
    all_.push_back(finding);
  }
  // Returns the finding with the strongest evidence; the earliest one among equals.
  std::optional<Finding> best() const {
    std::optional<Finding> best;
    for (const Finding& finding : all_)
      if (!best || finding.evidence > best->evidence) best = finding;
    return best;
  }
  // Returns true if no later finding could explain the failure better.
  bool decisive() const { return best() && best()->evidence >= Evidence::kOwnFailure; }
  // Returns the evidence against a rank, or the weakest one if there is none.
  Evidence of(int rank) const {
    for (const Finding& finding : all_)
      if (finding.rank == rank) return finding.evidence;
    return Evidence::kLostPeer;
  }

 private:
  std::vector<Finding> all_;  // in the order in which they were made
};

}  // namespace weft::launch
